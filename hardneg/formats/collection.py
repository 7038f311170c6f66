"""A collection stored in one folder: the corpus, and the queries, judgements and answers of each split."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardneg import records, store
from hardneg.formats import qrels, source_files, text_lines
from hardneg.formats.arrays import AGAIN, normalise
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.records import ArtifactError, Collection, DataError, Judgement, Query, Side, counted
from hardneg.runtime import Progress

Qrels = qrels.Qrels
_SCHEMA = pa.schema([("query_id", pa.string()), ("text", pa.string())])
_ROWS = 8192
_FORMAT = 1
_BLOCK = 65536
_WITHHELD = "withheld.txt"
_EXCLUDED = "excluded.tsv"
_LACKING = "~lacking"  # a suffix that no split's name can have


@dataclass(frozen=True)
class Queries:
    """The ids and texts of one split's queries, in the order of the source; iteration yields `Query` records."""

    query_ids: list[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.query_ids, self.texts)

    @classmethod
    def open(cls, path: Path) -> "Queries":
        """Read a file written by `write_queries`. Raises ArtifactError if the file is missing or damaged."""
        try:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
                return cls(table.column("query_id").to_pylist(), table.column("text").to_pylist())
        except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0]
            raise ArtifactError(f"{path}: queries cannot be read ({reason}); {AGAIN}") from error


def write_queries(path: Path, queries: Iterable[Query]) -> list[str]:
    """Write the queries of one split in the given order, completely or not at all, and return their ids.

    Raises DataError if an id is invalid (see `one_word`) or repeated, or a text is empty or not valid Unicode.
    """
    known: dict[str, None] = {}
    rows, block = iter(queries), [Query("", "")] * _ROWS
    with store.replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        while len(block) == _ROWS:
            block = list(islice(rows, _ROWS))
            for query in block:
                name = query.query_id
                if not (isinstance(name, str) and isinstance(query.text, str)):
                    raise DataError(f"query {name!r}: id and text must be strings")
                if not text_lines.one_word(name):
                    raise DataError(f"query {text_lines.id_problem(name)}")
                if not query.text.strip():
                    raise text_lines.Unplaced(query, f"query {name!r} has no text")
                if name in known:
                    reason = f"query id {name!r} occurs twice in one split; ids must be unique"
                    raise text_lines.Unplaced(query, reason, again=True)
                known[name] = None
            try:
                columns = [pa.array([query[i] for query in block], pa.string()) for i in (0, 1)]
            except (UnicodeEncodeError, pa.ArrowException) as error:
                raise DataError(f"queries from {block[0].query_id!r} on: not valid Unicode ({error})") from error
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return list(known)


@dataclass(frozen=True)
class StoredCollection:
    """A collection folder written by `write_collection`. `splits` lists the names of its splits."""

    folder: Path
    corpus: Corpus
    splits: Sequence[str]

    @classmethod
    def open(cls, folder: Path) -> "StoredCollection":
        """Open a collection folder: the corpus is memory-mapped, and queries and judgements are read on access.

        Raises ArtifactError if a file is missing or damaged, or has another format.
        """
        path = Path(folder) / "collection.json"
        try:
            described = json.loads(path.read_bytes())
            splits = tuple(described["splits"])
            known = described["format"]
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise ArtifactError(f"{folder}: not a stored collection ({path.name}: {error}); {AGAIN}") from error
        if known != _FORMAT:
            raise ArtifactError(f"{path}: expected format {_FORMAT}, found {known}; {AGAIN}")
        return cls(Path(folder), Corpus.open(Path(folder)), splits)

    def queries(self, split: str) -> Queries:
        """The queries of one split. Raises DataError for an unknown split and ArtifactError for a damaged file."""
        return Queries.open(self.folder / "queries" / f"{self._known(split)}.arrow")

    def qrels(self, split: str) -> Qrels:
        """The judgements of one split's known queries and documents; empty if there are none.

        Raises DataError for an unknown split, and ArtifactError if the file is missing.
        """
        path = self.folder / "qrels" / f"{self._known(split)}.txt"
        if not path.exists():
            raise ArtifactError(f"{path}: missing; {AGAIN}")
        return _qrels(path)

    def judged(self, split: str) -> Qrels:
        """The judgements for evaluating one split. As in trec_eval, those of unknown queries and documents count."""
        union, path = self.qrels(split), self.folder / "qrels" / f"{split}{_LACKING}.txt"
        counts = json.loads((self.folder / "collection.json").read_bytes())["splits"][split]
        if counts.get("unknown_queries") or counts.get("unknown_documents"):
            if not path.exists():
                raise ArtifactError(f"{path}: missing; delete {self.folder}, and the next run will recreate it")
            for query_id, judged in _qrels(path).items():
                union.setdefault(query_id, {}).update(judged)
        return union

    def answers(self, split: str) -> dict[str, tuple[str, ...]]:
        """The answers to one split's queries, by query id; may be empty. Raises DataError for an unknown split."""
        path = self.folder / "answers" / f"{self._known(split)}.jsonl"
        lines = text_lines.read_lines(path) if path.exists() else ()
        rows = ((path, number, text_lines.json_row(path, number, line)) for number, line in lines)
        return {text_lines.id_field(*row, "query_id"): text_lines.texts_field(*row, "answers") for row in rows}

    def all_qrels(self) -> Qrels:
        """The judgements of all splits. If a document has several grades for a query, the highest one is kept."""
        union: Qrels = {}
        for split in self.splits:
            for query_id, judged in self.qrels(split).items():
                known = union.setdefault(query_id, {})
                for doc_id, relevance in judged.items():
                    known[doc_id] = max(relevance, known.get(doc_id, relevance))
        return union

    def withheld(self) -> Qrels:
        """The judgements that are withheld from training and used for evaluation; empty if there are none."""
        path = self.folder / _WITHHELD
        return _qrels(path) if path.exists() else {}

    def excluded(self) -> dict[str, list[str]]:
        """The ids of the documents excluded from each query's results and negatives, by query id; may be empty."""
        path, excluded = self.folder / _EXCLUDED, dict[str, list[str]]()
        for query_id, doc_id in qrels.read_excluded(path) if path.exists() else ():
            excluded.setdefault(query_id, []).append(doc_id)
        return excluded

    def groups(self, side: Side) -> dict[str, str]:
        """The group of each document (or query, if `side` is `query`) by id. Ids without a group are omitted."""
        path = self.folder / "groups" / f"{side}.tsv"
        return dict(qrels.read_groups(path)) if path.exists() else {}

    def _known(self, split: str) -> str:
        if split not in self.splits:
            known = ", ".join(self.splits) or "none"
            raise DataError(f"no split {split!r} in this collection; available: {known}")
        return split


def _qrels(path: Path) -> Qrels:
    judged: Qrels = {}
    for _, (query_id, doc_id, relevance) in qrels.iter_qrels(path):
        judged.setdefault(query_id, {})[doc_id] = relevance
    return judged


def write_collection(
    collection: Collection, folder: Path, progress: Progress, corpus: Corpus | None = None, *, exclude_own: bool = False
) -> dict[str, Any]:
    """Write a collection into `folder`, which the caller renames when it is complete.

    Judgements of unknown documents or queries are stored separately, counted and noted.

    Args:
        collection: the result of a dataset loader.
        folder: a new or empty folder.
        progress: reports the number of documents written, and the notes.
        corpus: an existing corpus with the same documents; its files are linked. None writes a new corpus.
        exclude_own: whether to exclude, for each query, the document with the query's id.

    Returns:
        A dict with the number of `documents`, the counts of each of the `splits`, and `notes` on these counts. A split
            has counts of `queries`, `judgements`, the `highest_grade`, judgements that were set aside
            (`unknown_queries`, `unknown_documents`, `repeated`), and queries `without_relevant` documents or
            `with_answers`. If they apply, there are also `withheld`, the counts of judgements withheld from training
            (`hidden`: by split, withheld positives of queries that keep other positives); `excluded`, the number of
            excluded query-document pairs; and `groups`, the numbers of documents and queries with a group.

    Raises DataError for an invalid or repeated id or split, or for conflicting texts, judgements or exclusions.
    """
    splits = collection.splits()
    problems = [problem for split in splits if (problem := source_files.split_problem(split))]
    problems += [f"split {split!r} occurs twice" for split in dict.fromkeys(splits) if splits.count(split) > 1]
    if problems:
        raise DataError("; ".join(problems))
    for name in ("queries", "qrels"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with locating(collection):
        documents = write_corpus(collection.documents(), folder, progress) if corpus is None else corpus.link_to(folder)
        counts = _write(collection, splits, folder, documents, exclude_own)
    for note in counts["notes"]:
        progress.note(note)
    store.replace_text(
        folder / "collection.json", json.dumps({"format": _FORMAT, **counts}, indent=2, ensure_ascii=False)
    )
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
                reason = f"query id {query_id!r} of split {split} has another text in an earlier split; make ids unique"
                raise text_lines.Unplaced(Query(query_id, text), reason)
    if isinstance(collection, records.HasWithheld):
        counts["withheld"] = _write_withheld(collection, splits, folder, corpus, frozenset(texts))
        judged = counted(counts["withheld"]["judgements"], "judgement")
        hidden = counted(sum(counts["withheld"]["hidden"].values()), "positive")
        notes += [f"withheld from training: {judged}", *_described("withheld", counts["withheld"])]
        notes.append(f"withheld from queries with other positives: {hidden}")
    exclusions = list(collection.excluded()) if isinstance(collection, qrels.HasExcluded) else []
    named = zip(texts, corpus.rows(list(texts)).tolist(), strict=True) if own else ()
    exclusions += [qrels.Exclusion(name, name) for name, row in named if row >= 0]
    rows = corpus.rows([item.doc_id for item in exclusions]).tolist()
    known = [item for item, row in zip(exclusions, rows, strict=True) if row >= 0 and item.query_id in texts]
    if count := qrels.write_excluded(folder / _EXCLUDED, known):
        counts["excluded"] = count
        notes.append(f"excluded: {counted(count, 'query-document pair')}")
        excluded = frozenset(known)
        for split in splits:
            for query_id, doc_ids in qrels.positives(_qrels(folder / "qrels" / f"{split}.txt")).items():
                for pair in excluded.intersection(qrels.Exclusion(query_id, doc_id) for doc_id in doc_ids):
                    what = f"document {pair.doc_id!r} of query {query_id!r}"
                    raise text_lines.Unplaced(pair, f"{what} is both relevant and excluded; remove one of these")
    if unknown := len(exclusions) - len(known):
        notes.append(f"left out: {counted(unknown, 'exclusion')} of unknown queries or documents")
    if isinstance(collection, records.HasGroups):
        members = list(collection.groups("document"))
        rows = corpus.rows([member.member_id for member in members]).tolist()
        documents = (member for member, row in zip(members, rows, strict=True) if row >= 0)
        queries = (member for member in collection.groups("query") if member.member_id in texts)
        groups = {
            "documents": qrels.write_groups(folder / "groups" / "document.tsv", documents),
            "queries": qrels.write_groups(folder / "groups" / "query.tsv", queries),
        }
        if any(groups.values()):
            counts["groups"] = groups
    return {**counts, "notes": [*collection.notes(), *notes]}


def _write_split(collection: Collection, split: str, corpus: Corpus, folder: Path) -> dict[str, int]:
    query_ids = write_queries(folder / "queries" / f"{split}.arrow", collection.queries(split))
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

    counts["judgements"] = qrels.write_qrels(folder / "qrels" / f"{split}.txt", watched())
    if lacking:
        qrels.write_qrels(folder / "qrels" / f"{split}{_LACKING}.txt", lacking)
    counts["without_relevant"] = len(waiting)
    if isinstance(collection, records.HasAnswers):
        own, given = frozenset(query_ids), (item for item in collection.answers(split) if item.texts)
        answers = [{"query_id": name, "answers": list(texts)} for name, texts in given if name in own]
        if answers:
            with store.replacing(folder / "answers" / f"{split}.jsonl") as file:
                file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in answers)
            counts["with_answers"] = len(answers)
    return dict(counts)


def _write_withheld(
    collection: records.HasWithheld, splits: Sequence[str], folder: Path, corpus: Corpus, query_ids: frozenset[str]
) -> dict[str, Any]:
    tally: Counter[str] = Counter()
    judgements = _known_judgements(collection.withheld(), query_ids, corpus, tally, [])
    tally["judgements"] = qrels.write_qrels(folder / _WITHHELD, judgements)
    withheld = qrels.positives(_qrels(folder / _WITHHELD))
    known = {split: qrels.positives(_qrels(folder / "qrels" / f"{split}.txt")) for split in splits}
    hidden = {split: sum(len(withheld.get(query_id, ())) for query_id in ids) for split, ids in known.items()}
    return {**tally, "hidden": {split: count for split, count in hidden.items() if count}}


def _known_judgements(
    judgements: Iterator[Judgement],
    query_ids: frozenset[str],
    corpus: Corpus,
    counts: Counter[str],
    lacking: list[Judgement],
) -> Iterator[Judgement]:
    """Yield the judgements of known queries and documents without repeats; append the others to `lacking`."""
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
                grades = f"judged both {seen[query_id, row]} and {relevance}; keep one judgement"
                raise text_lines.Unplaced(judgement, f"query {query_id}, document {doc_id}: {grades}")


def _described(split: str, counts: Mapping[str, int]) -> list[str]:
    phrases = {
        "unknown_queries": ("judgement", "of unknown queries, used in evaluation only"),
        "unknown_documents": ("judgement", "of documents not in the corpus, used in evaluation only"),
        "repeated": ("repeated judgement", "left out"),
        "without_relevant": ("query", "without a relevant document"),
    }
    known = [(counted(counts[name], noun), what) for name, (noun, what) in phrases.items() if counts.get(name)]
    return [f"{split}: {count} {what}" for count, what in known]


@contextmanager
def locating(collection: Collection) -> Iterator[None]:
    """Turn an `Unplaced` error into a DataError, with file and line if a second pass over the collection finds them."""
    try:
        yield
    except text_lines.Unplaced as error:
        raise DataError(f"{place}: {error}" if (place := _place(error, collection)) else str(error)) from error


def _place(error: text_lines.Unplaced, collection: Collection) -> str:
    """The location of an error's record: the second one with its id if ids repeat, otherwise an equal record."""
    wanted, seen = error.record, set[str]()
    length = 1 if error.again else len(wanted)
    with suppress(DataError):
        for part in source_files.parts_of(collection):
            for line, record in part.read():
                if isinstance(record, type(wanted)) and record[:length] == wanted[:length]:
                    file = part.name if isinstance(record, Query) else ""  # splits may share a file of queries
                    if not error.again or file in seen:
                        return f"{part.name}:{line}"
                    seen.add(file)
    return ""


def extended(
    known: Mapping[str, Sequence[str]], files: Sequence[Path], collection: StoredCollection
) -> dict[str, list[str]]:
    """Return each query's known positives, followed by those in the given files, without duplicates.

    Args:
        known: positives by query id.
        files: judgements in TREC's or BEIR's format. A relevance of zero or less does not remove a positive.
        collection: the collection; it must contain every query and document in the files.

    Raises DataError if a file is malformed or has no judgements, or refers to an unknown query or document.
    """
    queries = {query_id for split in collection.splits for query_id in collection.queries(split).query_ids}
    more: Qrels = {}
    for path in files:
        judged = list(qrels.iter_qrels(path))
        if not judged:
            raise DataError(f"{path}: contains no judgements; omit this file")
        rows = collection.corpus.rows([item.doc_id for _, item in judged]).tolist()
        for (number, (query_id, doc_id, relevance)), row in zip(judged, rows, strict=True):
            if query_id not in queries or row < 0:
                lacking = f"document {doc_id!r}" if query_id in queries else f"query {query_id!r}"
                raise DataError.at(path, number, f"{lacking} is not in the dataset; remove the line")
            grades = more.setdefault(query_id, {})
            grades[doc_id] = max(relevance, grades.get(doc_id, relevance))
    added = qrels.positives(more)
    return {name: list(dict.fromkeys((*known.get(name, ()), *added.get(name, ())))) for name in {**known, **added}}
