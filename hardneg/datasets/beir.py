"""Collections in BEIR's form: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`, plain or with `.gz`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, get_args

from hardneg.formats import qrels as qrels_files, text_lines
from hardneg.formats.source_files import Part, PartedCollection, line_part, order_splits, qrels_part
from hardneg.records import Answers, DataError, Document, Membership, Query, Side
from hardneg.store import digest, file_digest, tree_digest

_SAMPLED = 50_000
"""How many judgements are read to tell how many a query has."""


@dataclass(frozen=True)
class Beir:
    """A folder in BEIR's form. The queries of a split are those that its qrels name.

    A query that also has `answers`, a list of texts, keeps them. `groups.tsv` has the group of each passage and query,
    as `id<TAB>group`; where a passage and a query have the same id, `document-groups.tsv` and `query-groups.tsv` do.
    `excluded.tsv` has passages that do not count for a query, as `query_id<TAB>doc_id`.

    Source: Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
    Models", 2021.

    Args:
        source: the folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each as it is or as `.gz`.
        judged: false reads the documents alone, of a folder that has no qrels.
    """

    source: str
    judged: bool = True
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"judged"})
    known_by: ClassVar[tuple[str, ...]] = ("corpus.jsonl", "corpus.jsonl.gz")

    def load(self) -> "BeirCollection":
        """The collection, opened for streaming. Raises DataError where a file is missing."""
        if not self.source:
            raise DataError("beir needs a folder: beir:FOLDER")
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise text_lines.no_folder(folder)
        corpus = line_part(_file(folder, "corpus.jsonl"), _document)
        if not self.judged:
            return BeirCollection([corpus], {}, {})
        tables = (path.name.removesuffix(".gz") for path in (folder / "qrels").glob("*.tsv*"))
        names = [name for name in tables if not name.startswith(".")]  # such as those that macOS puts into archives
        splits = order_splits(name.removesuffix(".tsv") for name in names if name.endswith(".tsv"))
        if not splits:
            raise DataError(f"{folder}: no qrels/SPLIT.tsv; a BEIR folder has one for each split")
        queries = dict.fromkeys(splits, line_part(_file(folder, "queries.jsonl"), _query))
        qrels = {split: qrels_part(_file(folder / "qrels", f"{split}.tsv"), split) for split in splits}
        return BeirCollection([corpus], queries, qrels)

    def fingerprint(self) -> str:
        """A digest of the bytes of the files that are read."""
        collection = self.load()
        marks = ["answers"] if collection.with_answers() else []
        marks += [file_digest(path) for side in get_args(Side) if (path := collection.groups_file(side))]
        return digest(["beir", self.version, collection.digest(Path(self.source).expanduser()), *marks])

    def size_hint(self) -> int:
        """About how many documents there are, from the first lines and the size of the corpus file."""
        return text_lines.estimate_lines(Path(self.load().documents_in[0].name))

    def query_hint(self) -> Mapping[str, int]:
        """About how many queries each split has, from the first lines and the size of its qrels."""
        hints: dict[str, int] = {}
        for split, path in ((split, Path(part.name)) for split, part in self.load().qrels_in.items()):
            named = [judgement.query_id for _, judgement in islice(qrels_files.iter_qrels(path), _SAMPLED)]
            hints[split] = round(text_lines.estimate_lines(path) * len(set(named)) / max(len(named), 1))
        return hints


@dataclass(frozen=True)
class BeirCollection(PartedCollection):
    """The files of a BEIR folder; one holds the queries of all splits."""

    def with_answers(self) -> bool:
        """Whether a query has answers."""
        if not self.queries_in:
            return False
        path = self._query_file
        marked = (line for line in text_lines.read_lines(path) if '"answers"' in line[1])
        return any("answers" in text_lines.json_row(path, *line) for line in marked)

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to the queries of all splits: which are of this one, their ids say."""
        path = self._query_file
        rows = ((path, number, text_lines.json_row(path, number, line)) for number, line in text_lines.read_lines(path))
        answers = (Answers(text_lines.id_field(*row, "_id"), text_lines.texts_field(*row, "answers")) for row in rows)
        return answers if self.with_answers() else iter(())

    def groups(self, side: Side) -> Iterator[Membership]:
        """The lines of the file of groups, those of ids on the other side too."""
        path = self.groups_file(side)
        return qrels_files.read_groups(path) if path else iter(())

    def groups_file(self, side: Side) -> Path | None:
        """The file that has the groups of documents or of queries, if there is one."""
        folder = Path(self.documents_in[0].name).parent
        return text_lines.find_file(folder, f"{side}-groups.tsv") or text_lines.find_file(folder, "groups.tsv")

    def excluded(self) -> Iterator[qrels_files.Exclusion]:
        """The lines of the file of excluded passages."""
        return qrels_files.read_excluded(self.excluded_file) if self.excluded_file else iter(())

    def parts(self) -> Iterator[Part]:
        """The files of excluded passages and of groups too, after the judgements."""
        yield from super().parts()
        if self.excluded_file:
            yield line_part(self.excluded_file, qrels_files.parse_exclusion)
        for path in self._group_files:
            yield line_part(path, qrels_files.parse_membership)

    def digest(self, root: Path) -> str:
        """A digest of the bytes of all files but those of groups, which are named relative to `root`."""
        paths = [Path(part.name) for part in self.parts()]
        return tree_digest(root, [path.relative_to(root).as_posix() for path in paths if path not in self._group_files])

    @property
    def _group_files(self) -> list[Path]:
        return [path for path in dict.fromkeys(map(self.groups_file, get_args(Side))) if path]

    @property
    def excluded_file(self) -> Path | None:
        """The file that has the passages that do not count for a query, if there is one."""
        return text_lines.find_file(self._query_file.parent, "excluded.tsv") if self.queries_in else None

    @property
    def _query_file(self) -> Path:
        return Path(next(iter(self.queries_in.values())).name)


def _file(folder: Path, name: str) -> Path:
    path = text_lines.find_file(folder, name)
    if path is None:
        raise DataError(f"{folder}: neither {name} nor {name}.gz; a BEIR folder has both and qrels")
    return path


def _document(path: Path, number: int, line: str) -> Document:
    row = text_lines.json_row(path, number, line)
    doc_id, text = text_lines.id_field(path, number, row, "_id"), text_lines.text_field(path, number, row, "text")
    return Document(doc_id, text, text_lines.title_field(path, number, row))


def _query(path: Path, number: int, line: str) -> Query:
    row = text_lines.json_row(path, number, line)
    text_lines.texts_field(path, number, row, "answers")  # so that a mistake in them is told with the query
    return Query(text_lines.id_field(path, number, row, "_id"), text_lines.text_field(path, number, row, "text"))
