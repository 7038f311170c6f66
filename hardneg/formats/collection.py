"""The stored collection: a corpus, queries and judgements by split, in one folder with known names."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hardneg.formats import qrels as qrels_files, queries as queries_files
from hardneg.formats.arrays import AGAIN
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.hash_index import normalise
from hardneg.formats.qrels import Exclusion, Qrels, positives
from hardneg.formats.queries import Queries
from hardneg.formats.source_files import parts_of, split_problem
from hardneg.formats.text_lines import Unplaced
from hardneg.records import Collection, HasAnswers, HasGroups, HasWithheld, Judgement, Query, Side, counted
from hardneg.records.errors import ArtifactError, DataError
from hardneg.runtime import Progress
from hardneg.store import replace_text

_FORMAT = 1
_BLOCK = 65536
_WITHHELD = "withheld.txt"
_EXCLUDED = "excluded.tsv"
_LACKING = "~lacking"  # no name of a split has such a sign


@dataclass(frozen=True)
class StoredCollection:
    """A collection that `write_collection` wrote."""

    folder: Path
    corpus: Corpus
    splits: Sequence[str]

    @classmethod
    def open(cls, folder: Path) -> "StoredCollection":
        """Opens a folder; the corpus is mapped, queries and judgements are read on access.

        Raises ArtifactError where a file is missing or damaged.
        """
        path = Path(folder) / "collection.json"
        try:
            described = json.loads(path.read_bytes())
            splits = tuple(described["splits"])
            known = described["format"]
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise ArtifactError(f"{folder}: not a stored collection ({path.name}: {error})") from error
        if known != _FORMAT:
            raise ArtifactError(f"{path}: format {known} instead of {_FORMAT}; {AGAIN}")
        return cls(Path(folder), Corpus.open(Path(folder)), splits)

    def queries(self, split: str) -> Queries:
        """The queries of one split. Raises DataError where there is no such split."""
        return Queries.open(self.folder / "queries" / f"{self._known(split)}.arrow")

    def qrels(self, split: str) -> Qrels:
        """The judgements of one split, to learn from, maybe none. Raises DataError where there is no such split."""
        path = self.folder / "qrels" / f"{self._known(split)}.txt"
        if not path.exists():
            raise ArtifactError(f"{path}: missing; {AGAIN}")
        return _qrels(path)

    def judged(self, split: str) -> Qrels:
        """All judgements of one split's source, to measure by: what the collection lacks is missed, as by trec_eval."""
        qrels, path = self.qrels(split), self.folder / "qrels" / f"{split}{_LACKING}.txt"
        counts = json.loads((self.folder / "collection.json").read_bytes())["splits"][split]
        if counts.get("unknown_queries") or counts.get("unknown_documents"):
            if not path.exists():
                raise ArtifactError(f"{path}: missing, as in an older version; remove {self.folder}, it is made again")
            for query_id, judged in _qrels(path).items():
                qrels.setdefault(query_id, {}).update(judged)
        return qrels

    def answers(self, split: str) -> dict[str, tuple[str, ...]]:
        """The answers to the queries of one split, by query id; maybe none. Raises DataError without such a split."""
        return queries_files.read_answers(self.folder / "answers" / f"{self._known(split)}.jsonl")

    def all_qrels(self) -> Qrels:
        """The judgements of all splits together; the highest where splits differ about one pair."""
        union: Qrels = {}
        for split in self.splits:
            for query_id, judged in self.qrels(split).items():
                known = union.setdefault(query_id, {})
                for doc_id, relevance in judged.items():
                    known[doc_id] = max(relevance, known.get(doc_id, relevance))
        return union

    def withheld(self) -> Qrels:
        """The judgements that were kept from training, to measure by; none where nothing was withheld."""
        path = self.folder / _WITHHELD
        return _qrels(path) if path.exists() else {}

    def excluded(self) -> dict[str, list[str]]:
        """The documents that do not count for a query, by query id; none where nothing is excluded."""
        path, excluded = self.folder / _EXCLUDED, dict[str, list[str]]()
        for query_id, doc_id in qrels_files.read_excluded(path) if path.exists() else ():
            excluded.setdefault(query_id, []).append(doc_id)
        return excluded

    def groups(self, side: Side) -> dict[str, str]:
        """The group of each document, or of each query, that has one, by its id; maybe none."""
        path = self.folder / "groups" / f"{side}.tsv"
        return dict(qrels_files.read_groups(path)) if path.exists() else {}

    def _known(self, split: str) -> str:
        if split not in self.splits:
            known = ", ".join(self.splits) or "none"
            raise DataError(f"no split {split!r} in this collection; it has {known}")
        return split


def _qrels(path: Path) -> Qrels:
    qrels: Qrels = {}
    for _, (query_id, doc_id, relevance) in qrels_files.iter_qrels(path):
        qrels.setdefault(query_id, {})[doc_id] = relevance
    return qrels


def write_collection(
    collection: Collection, folder: Path, progress: Progress, corpus: Corpus | None = None, *, exclude_own: bool = False
) -> dict[str, Any]:
    """Writes a collection into `folder`, which the caller renames when all is done.

    Judgements about documents or queries that the collection does not have are kept apart, counted and noted.

    Args:
        collection: what a dataset loader gave.
        folder: a new or empty folder.
        progress: shows the corpus going by, and the notes.
        corpus: stored already, with the same documents: its files are linked.
        exclude_own: a document that has a query's id does not count for that query.

    Returns:
        `documents`; `splits`: for each split `queries`, `judgements`, their `highest_grade`, by reason how many were
        left out or stand without a relevant document, and `with_answers` where there are some; `withheld`, where
        judgements are kept from training: the same of them, and `hidden`: by split, their positives of queries that
        keep others; `excluded`, where there are some: how many documents do not count for a query; `groups`, where
        there are some: how many documents and queries have one; `notes`: all that was noted, in words.

    Raises DataError where ids are repeated, empty or hold white space, or one pair is judged in two ways.
    """
    splits = collection.splits()
    problems = [problem for split in splits if (problem := split_problem(split))]
    problems += [f"split {split!r} comes twice" for split in dict.fromkeys(splits) if splits.count(split) > 1]
    if problems:
        raise DataError("; ".join(problems))
    for name in ("queries", "qrels"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with placed(collection):
        documents = write_corpus(collection.documents(), folder, progress) if corpus is None else corpus.link_to(folder)
        counts = _write(collection, splits, folder, documents, exclude_own)
    for note in counts["notes"]:
        progress.note(note)
    replace_text(folder / "collection.json", json.dumps({"format": _FORMAT, **counts}, indent=2, ensure_ascii=False))
    return counts


def _write(collection: Collection, splits: Sequence[str], folder: Path, count: int, own: bool) -> dict[str, Any]:
    counts: dict[str, Any] = {"documents": count, "splits": {}}
    corpus = Corpus.open(folder)
    texts, notes = dict[str, int](), list[str]()
    for split in splits:
        counts["splits"][split] = _write_split(collection, split, corpus, folder)
        notes += _described(split, counts["splits"][split])
        for query_id, text in Queries.open(folder / "queries" / f"{split}.arrow"):
            if texts.setdefault(query_id, hash(normalise(text))) != hash(normalise(text)):
                reason = f"query id {query_id!r} of split {split}: two splits give it different texts; make it unique"
                raise Unplaced(Query(query_id, text), reason)
    if isinstance(collection, HasWithheld):
        counts["withheld"] = _write_withheld(collection, splits, folder, corpus, frozenset(texts))
        judged = counted(counts["withheld"]["judgements"], "judgement is", "judgements are")
        hidden = counted(sum(counts["withheld"]["hidden"].values()), "hidden positive is", "hidden positives are")
        notes += [f"{judged} withheld from training", *_described("withheld", counts["withheld"])]
        notes.append(f"{hidden} among them: of queries that keep others")
    exclusions = list(collection.excluded()) if isinstance(collection, qrels_files.HasExcluded) else []
    named = zip(texts, corpus.rows(list(texts)).tolist(), strict=True) if own else ()
    exclusions += [Exclusion(name, name) for name, row in named if row >= 0]
    rows = corpus.rows([item.doc_id for item in exclusions]).tolist()
    known = [item for item, row in zip(exclusions, rows, strict=True) if row >= 0 and item.query_id in texts]
    if count := qrels_files.write_excluded(folder / _EXCLUDED, known):
        counts["excluded"] = count
        notes.append(f"{counted(count, 'document does', 'documents do')} not count for a query")
        excluded = frozenset(known)
        for split in splits:
            for query_id, doc_ids in positives(_qrels(folder / "qrels" / f"{split}.txt")).items():
                for pair in excluded.intersection(Exclusion(query_id, doc_id) for doc_id in doc_ids):
                    what = f"document {pair.doc_id!r} of query {query_id!r}"
                    raise Unplaced(pair, f"{what} is relevant and excluded: leave one of the two out")
    if unknown := len(exclusions) - len(known):
        lines = counted(unknown, "exclusion is", "exclusions are")
        notes.append(f"{lines} left out: of queries or documents that the collection lacks")
    if isinstance(collection, HasGroups):
        members = list(collection.groups("document"))
        rows = corpus.rows([member.member_id for member in members]).tolist()
        documents = (member for member, row in zip(members, rows, strict=True) if row >= 0)
        queries = (member for member in collection.groups("query") if member.member_id in texts)
        groups = {
            "documents": qrels_files.write_groups(folder / "groups" / "document.tsv", documents),
            "queries": qrels_files.write_groups(folder / "groups" / "query.tsv", queries),
        }
        if any(groups.values()):
            counts["groups"] = groups
    return {**counts, "notes": [*collection.notes(), *notes]}


def _write_split(collection: Collection, split: str, corpus: Corpus, folder: Path) -> dict[str, int]:
    query_ids = queries_files.write_queries(folder / "queries" / f"{split}.arrow", collection.queries(split))
    counts: Counter[str] = Counter(queries=len(query_ids))
    waiting = dict.fromkeys(query_ids)
    lacking: list[Judgement] = []
    judgements = _known_judgements(collection.qrels(split), frozenset(query_ids), corpus, counts, lacking)

    def watched() -> Iterator[Judgement]:
        for judgement in judgements:
            if judgement.relevance > 0:
                waiting.pop(judgement.query_id, None)
            counts["highest_grade"] = max(counts["highest_grade"], judgement.relevance)
            yield judgement

    counts["judgements"] = qrels_files.write_qrels(folder / "qrels" / f"{split}.txt", watched())
    if lacking:
        qrels_files.write_qrels(folder / "qrels" / f"{split}{_LACKING}.txt", lacking)
    counts["without_relevant"] = len(waiting)
    if isinstance(collection, HasAnswers):
        own = frozenset(query_ids)
        known = (answer for answer in collection.answers(split) if answer.query_id in own)
        if count := queries_files.write_answers(folder / "answers" / f"{split}.jsonl", known):
            counts["with_answers"] = count
    return dict(counts)


def _write_withheld(
    collection: HasWithheld, splits: Sequence[str], folder: Path, corpus: Corpus, query_ids: frozenset[str]
) -> dict[str, Any]:
    tally: Counter[str] = Counter()
    judgements = _known_judgements(collection.withheld(), query_ids, corpus, tally, [])
    tally["judgements"] = qrels_files.write_qrels(folder / _WITHHELD, judgements)
    withheld = positives(_qrels(folder / _WITHHELD))
    kept = {split: positives(_qrels(folder / "qrels" / f"{split}.txt")) for split in splits}
    hidden = {split: sum(len(withheld.get(query_id, ())) for query_id in ids) for split, ids in kept.items()}
    return {**tally, "hidden": {split: count for split, count in hidden.items() if count}}


def _known_judgements(
    judgements: Iterator[Judgement],
    query_ids: frozenset[str],
    corpus: Corpus,
    counts: Counter[str],
    lacking: list[Judgement],
) -> Iterator[Judgement]:
    """The judgements that can be learnt from; `lacking` gets the others, of queries or documents that are not there."""
    seen: dict[tuple[str, int], int] = {}
    while block := list(islice(judgements, _BLOCK)):
        rows = corpus.rows([judgement.doc_id for judgement in block]).tolist()
        for judgement, row in zip(block, rows, strict=True):
            query_id, doc_id, relevance = judgement
            if query_id not in query_ids or row < 0:
                counts["unknown_documents" if query_id in query_ids else "unknown_queries"] += 1
                lacking.append(judgement)
            elif (query_id, row) not in seen:
                seen[query_id, row] = relevance
                yield judgement
            elif seen[query_id, row] == relevance:
                counts["repeated"] += 1
            else:
                grades = f"judged both {seen[query_id, row]} and {relevance}; keep one"
                raise Unplaced(judgement, f"query {query_id}, document {doc_id}: {grades}")


def _described(split: str, counts: Mapping[str, int]) -> list[str]:
    unlearnt = "judgement is for measuring alone", "judgements are for measuring alone"
    phrases = {
        "unknown_queries": (*unlearnt, ": no such query in the split"),
        "unknown_documents": (*unlearnt, ": no such document in the corpus"),
        "repeated": ("judgement left out", "judgements left out", ": there before, the same"),
        "without_relevant": ("query has", "queries have", " no relevant document"),
    }
    known = [(counts[name], *words) for name, words in phrases.items() if counts.get(name)]
    return [f"{split}: {counted(count, one, more)}{why}" for count, one, more, why in known]


@contextmanager
def placed(collection: Collection) -> Iterator[None]:
    """Adds file and line to an `Unplaced` error, for which the collection is read again."""
    try:
        yield
    except Unplaced as error:
        raise DataError(f"{place}: {error}" if (place := _place(error, collection)) else str(error)) from error


def _place(error: Unplaced, collection: Collection) -> str:
    """Where the record of an error stands: an id alone where it comes again, else all of the record."""
    wanted, seen = error.record, set[str]()
    length = 1 if error.again else len(wanted)
    with suppress(DataError):
        for part in parts_of(collection):
            for line, record in part.read():
                if isinstance(record, type(wanted)) and record[:length] == wanted[:length]:
                    file = part.name if isinstance(record, Query) else ""  # splits may share queries
                    if not error.again or file in seen:
                        return f"{part.name}:{line}"
                    seen.add(file)
    return ""


def extended(
    known: Mapping[str, Sequence[str]], files: Sequence[Path], collection: StoredCollection
) -> dict[str, list[str]]:
    """The positives of each query: the known ones, then those of the files, each once.

    Args:
        known: by query id.
        files: judgements in TREC's or BEIR's form. A relevance of zero or less takes nothing away.
        collection: what has the queries and the documents.

    Raises DataError where a file has a mistake, or judges a query or a document that the collection lacks.
    """
    queries = {query_id for split in collection.splits for query_id in collection.queries(split).query_ids}
    more: Qrels = {}
    for path in files:
        judged = list(qrels_files.iter_qrels(path))
        if not judged:
            raise DataError(f"{path}: holds no judgements; leave it out")
        rows = collection.corpus.rows([item.doc_id for _, item in judged]).tolist()
        for (number, (query_id, doc_id, relevance)), row in zip(judged, rows, strict=True):
            if query_id not in queries or row < 0:
                lacking = f"document {doc_id!r}" if query_id in queries else f"query {query_id!r}"
                raise DataError.at(path, number, f"judges {lacking}, which the dataset does not have")
            grades = more.setdefault(query_id, {})
            grades[doc_id] = max(relevance, grades.get(doc_id, relevance))
    added = positives(more)
    return {name: list(dict.fromkeys((*known.get(name, ()), *added.get(name, ())))) for name in {**known, **added}}
