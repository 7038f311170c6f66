"""Collections in BEIR's format: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`, plain or `.gz`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, get_args

from hardneg import store
from hardneg.formats import qrels, source_files, text_lines
from hardneg.records import Answers, DataError, Document, Membership, Query, Side

_SAMPLED = 50_000
"""The number of judgements read to estimate how many a query has."""


@dataclass(frozen=True)
class Beir:
    """A folder in BEIR's format. A split consists of the queries in its qrels file.

    A query may have `answers`, a list of strings. Optional files: `groups.tsv` with the group of each passage and
    query, as `id<TAB>group` (`document-groups.tsv` and `query-groups.tsv` where passages and queries share ids), and
    `excluded.tsv` with passages to exclude for a query as `query_id<TAB>doc_id`.

    Source: Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
    Models", 2021.

    Args:
        source: the folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each plain or `.gz`.
        judged: whether to read queries and qrels; if false, only the documents are read, and no qrels are needed.
    """

    source: str
    judged: bool = True
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"judged"})
    known_by: ClassVar[tuple[str, ...]] = ("corpus.jsonl", "corpus.jsonl.gz")

    def load(self) -> "BeirCollection":
        """Open the collection for streaming. Raises DataError if a file is missing."""
        if not self.source:
            raise DataError("beir needs a folder, as in beir:FOLDER")
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise text_lines.no_folder(folder)
        corpus = source_files.line_part(_file(folder, "corpus.jsonl"), _document)
        groups = dict[Side, Path]()
        for side in get_args(Side):
            path = text_lines.find_file(folder, f"{side}-groups.tsv") or text_lines.find_file(folder, "groups.tsv")
            groups |= {side: path} if path else {}
        if not self.judged:
            return BeirCollection([corpus], {}, {}, group_files=groups)
        tables = (path.name.removesuffix(".gz") for path in (folder / "qrels").glob("*.tsv*"))
        names = [name for name in tables if not name.startswith(".")]  # hidden files, such as macOS adds to archives
        splits = source_files.order_splits(name.removesuffix(".tsv") for name in names if name.endswith(".tsv"))
        if not splits:
            raise DataError(f"{folder}: no qrels/SPLIT.tsv; a BEIR folder has one per split")
        queries = dict.fromkeys(splits, source_files.line_part(_file(folder, "queries.jsonl"), _query))
        judged = {
            split: source_files.line_part(_file(folder / "qrels", f"{split}.tsv"), None, split) for split in splits
        }
        excluded = text_lines.find_file(folder, "excluded.tsv")
        return BeirCollection([corpus], queries, judged, group_files=groups, excluded_file=excluded)

    def fingerprint(self) -> str:
        """Return a digest of the names and bytes of all files of the collection."""
        folder, collection = Path(self.source).expanduser(), self.load()
        queries = dict.fromkeys(collection.queries_in.values())
        files = [Path(part.name) for part in (*collection.documents_in, *queries, *collection.qrels_in.values())]
        files += [collection.excluded_file] if collection.excluded_file else []
        names = [path.relative_to(folder).as_posix() for path in files]
        marks = ["answers"] if collection.with_answers() else []
        marks += [store.file_digest(path) for path in collection.group_files.values()]
        return store.digest(["beir", self.version, store.tree_digest(folder, names), *marks])

    def size_hint(self) -> int:
        """Estimate the number of documents from the first lines and the size of the corpus file."""
        return text_lines.estimate_lines(Path(self.load().documents_in[0].name))

    def query_hint(self) -> Mapping[str, int]:
        """Estimate the number of queries of each split from the first lines and the size of its qrels file."""
        hints: dict[str, int] = {}
        for split, path in ((split, Path(part.name)) for split, part in self.load().qrels_in.items()):
            judgements = zip(range(_SAMPLED), qrels.iter_qrels(path), strict=False)
            named = [judgement.query_id for _, (_, judgement) in judgements]
            hints[split] = round(text_lines.estimate_lines(path) * len(set(named)) / max(len(named), 1))
        return hints


@dataclass(frozen=True)
class BeirCollection(source_files.PartedCollection):
    """An open BEIR folder. Splits share one queries file; documents and queries may share one groups file."""

    group_files: Mapping[Side, Path] = field(default_factory=dict)
    excluded_file: Path | None = None

    def with_answers(self) -> bool:
        """Return whether any query has answers."""
        paths = [Path(part.name) for part in self.queries_in.values()][:1]
        marked = ((path, *line) for path in paths for line in text_lines.read_lines(path) if '"answers"' in line[1])
        return any("answers" in text_lines.json_row(*line) for line in marked)

    def answers(self, split: str) -> Iterator[Answers]:
        """Return the answers to all queries, whatever the split; none if no query has `answers`."""
        if self.with_answers():
            path = Path(next(iter(self.queries_in.values())).name)
            for number, line in text_lines.read_lines(path):
                row = path, number, text_lines.json_row(path, number, line)
                yield Answers(text_lines.id_field(*row, "_id"), text_lines.texts_field(*row, "answers"))

    def groups(self, side: Side) -> Iterator[Membership]:
        """Return the memberships in the groups file of `side`, if any; a shared file lists documents and queries."""
        return qrels.read_groups(self.group_files[side]) if side in self.group_files else iter(())

    def excluded(self) -> Iterator[qrels.Exclusion]:
        """Return the query-document pairs in `excluded.tsv`; none if the file does not exist."""
        return qrels.read_excluded(self.excluded_file) if self.excluded_file else iter(())

    def parts(self) -> Iterator[source_files.Part]:
        """Yield a part for each file, with excluded passages and groups last."""
        yield from super().parts()
        if self.excluded_file:
            yield source_files.line_part(self.excluded_file, qrels.parse_exclusion)
        for path in dict.fromkeys(self.group_files.values()):
            yield source_files.line_part(path, qrels.parse_membership)


def _file(folder: Path, name: str) -> Path:
    path = text_lines.find_file(folder, name)
    if path is None:
        raise DataError(f"{folder}: no {name} or {name}.gz; a BEIR folder has a corpus, queries and qrels")
    return path


def _document(path: Path, number: int, line: str) -> Document:
    row = text_lines.json_row(path, number, line)
    doc_id, text = text_lines.id_field(path, number, row, "_id"), text_lines.text_field(path, number, row, "text")
    return Document(doc_id, text, text_lines.title_field(path, number, row))


def _query(path: Path, number: int, line: str) -> Query:
    row = text_lines.json_row(path, number, line)
    text_lines.texts_field(path, number, row, "answers")  # reports a mistake in them with the query
    return Query(text_lines.id_field(path, number, row, "_id"), text_lines.text_field(path, number, row, "text"))
