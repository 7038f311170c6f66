"""Collections in BEIR's form: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`, plain or with `.gz`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from hardneg.data.json_rows import id_field, json_row, text_field, texts_field
from hardneg.data.qrels import iter_qrels
from hardneg.data.source_files import JudgedQueries, Part, line_part, order_splits, qrels_part
from hardneg.data.text_lines import estimate_lines, find_file, no_folder, read_lines
from hardneg.digest import digest, tree_digest
from hardneg.errors import DataError
from hardneg.types import Answers, Document, Judgement, Query

_SAMPLED = 50_000
"""How many judgements are read to tell how many a query has."""


@dataclass(frozen=True)
class Beir:
    """A folder in BEIR's form. The queries of a split are those that its qrels name.

    A query that also has `answers`, a list of texts, keeps them.

    Source: Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
    Models", 2021.

    Args:
        source: the folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each as it is or as `.gz`.
    """

    source: str
    version: ClassVar[int] = 1

    def load(self) -> "BeirCollection":
        """The collection, opened for streaming. Raises DataError where a file is missing."""
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise no_folder(folder)
        qrels = _qrels_files(folder)
        if not qrels:
            raise DataError(f"{folder}: no qrels/SPLIT.tsv; a BEIR folder has one for each split")
        return BeirCollection(_file(folder, "corpus.jsonl"), _file(folder, "queries.jsonl"), qrels)

    def fingerprint(self) -> str:
        """A digest of the bytes of the files that are read."""
        collection = self.load()
        paths = [collection.corpus_file, collection.query_file, *collection.qrels_files.values()]
        root = collection.corpus_file.parent
        names = [path.relative_to(root).as_posix() for path in paths]
        marks = ["answers"] if collection.with_answers() else []
        return digest(["beir", self.version, tree_digest(root, names), *marks])

    def size_hint(self) -> int:
        """About how many documents there are, from the first lines and the size of the corpus file."""
        return estimate_lines(self.load().corpus_file)

    def query_hint(self) -> Mapping[str, int]:
        """About how many queries each split has, from the first lines and the size of its qrels."""
        return {split: _count_queries(path) for split, path in self.load().qrels_files.items()}


@dataclass(frozen=True)
class BeirCollection:
    """The opened files of a BEIR folder."""

    corpus_file: Path
    query_file: Path
    qrels_files: dict[str, Path]
    _judged: JudgedQueries = field(default_factory=JudgedQueries)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the file's order."""
        return (_document(self.corpus_file, number, line) for number, line in read_lines(self.corpus_file))

    def splits(self) -> Sequence[str]:
        """The splits that have a qrels file."""
        return list(self.qrels_files)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's qrels name, in the order of the query file."""
        named = {judgement.query_id for judgement in self.qrels(split)}
        return self._judged.select(str(self.query_file), self._all_queries(), named)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        return (judgement for _, judgement in iter_qrels(self.qrels_files[split]))

    def with_answers(self) -> bool:
        """Whether a query has answers."""
        marked = (line for line in read_lines(self.query_file) if '"answers"' in line[1])
        return any("answers" in json_row(self.query_file, *line) for line in marked)

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to the queries of all splits: which are of this one, their ids say."""
        rows = (_answers(self.query_file, *line) for line in read_lines(self.query_file))
        return rows if self.with_answers() else iter(())

    def notes(self) -> Sequence[str]:
        """How many queries no split's qrels name."""
        return self._judged.notes()

    def parts(self) -> Iterator[Part]:
        """The files as `hardneg.data.check` reads them."""
        yield line_part(self.corpus_file, _document)
        yield line_part(self.query_file, _query)
        for split, path in self.qrels_files.items():
            yield qrels_part(path, split)

    def _all_queries(self) -> Iterator[tuple[int, Query]]:
        return ((number, _query(self.query_file, number, line)) for number, line in read_lines(self.query_file))


def _count_queries(path: Path) -> int:
    named = [judgement.query_id for _, judgement in islice(iter_qrels(path), _SAMPLED)]
    return round(estimate_lines(path) * len(set(named)) / max(len(named), 1))


def _file(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:
        raise DataError(f"{folder}: neither {name} nor {name}.gz; a BEIR folder has both and qrels")
    return path


def _qrels_files(folder: Path) -> dict[str, Path]:
    found = (path.name.removesuffix(".gz") for path in (folder / "qrels").glob("*.tsv*"))
    names = [name for name in found if not name.startswith(".")]  # such as those that macOS puts into archives
    splits = order_splits(name.removesuffix(".tsv") for name in names if name.endswith(".tsv"))
    return {split: _file(folder / "qrels", f"{split}.tsv") for split in splits}


def _document(path: Path, number: int, line: str) -> Document:
    row = json_row(path, number, line)
    title = text_field(path, number, row, "title") if "title" in row else ""
    return Document(_id(path, number, row), text_field(path, number, row, "text"), title)


def _query(path: Path, number: int, line: str) -> Query:
    row = json_row(path, number, line)
    texts_field(path, number, row, "answers")  # so that a mistake in them is told with the query
    return Query(_id(path, number, row), text_field(path, number, row, "text"))


def _answers(path: Path, number: int, line: str) -> Answers:
    row = json_row(path, number, line)
    return Answers(_id(path, number, row), texts_field(path, number, row, "answers"))


def _id(path: Path, number: int, row: dict[str, Any]) -> str:
    text_field(path, number, row, "_id")
    return id_field(path, number, row, "_id")
