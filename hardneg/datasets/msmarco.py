"""MS MARCO's passage collection as its tab-separated files, each maybe with `.gz`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from hardneg.data.collection import order_splits
from hardneg.data.lines import estimate_lines, find_file, one_word, read_lines
from hardneg.data.parts import Part, line_part, qrels_part
from hardneg.data.qrels import iter_qrels
from hardneg.datasets.judged import JudgedQueries
from hardneg.errors import DataError
from hardneg.identity import digest, tree_digest
from hardneg.types import Document, Judgement, Query

_SMALL = ".small"


@dataclass(frozen=True)
class MsMarcoPassage:
    """A folder with `collection.tsv`, and `queries.SPLIT.tsv` and `qrels.SPLIT.tsv` for each split.

    The official names serve as they are: `queries.dev.small.tsv` and `qrels.dev.small.tsv` are the split
    `dev`, unless there is a complete `dev` beside them; then they are the split `dev.small`. Queries without
    judgements (many of `queries.train.tsv`, all of `queries.eval.tsv`) are left out and noted.

    Source: Bajaj et al., "MS MARCO: A Human Generated MAchine Reading COmprehension Dataset", 2016.

    Args:
        source: the folder; each file as it is or as `.gz`.
    """

    source: str
    version: ClassVar[int] = 1

    def load(self) -> "MsMarcoCollection":
        """The collection, opened for streaming. Raises DataError where a file is missing."""
        folder = Path(self.source).expanduser()
        corpus = find_file(folder, "collection.tsv")
        if corpus is None:
            raise DataError(f"{folder}: neither collection.tsv nor collection.tsv.gz")
        queries, qrels = _files(folder, "queries"), _files(folder, "qrels")
        pairs = {name: (queries[name], qrels[name]) for name in queries if name in qrels}
        if not pairs:
            raise DataError(f"{folder}: no split has both queries.SPLIT.tsv and qrels.SPLIT.tsv")
        unpaired = queries.keys() ^ qrels.keys()
        alone = sorted(({**queries, **qrels})[name].name for name in unpaired)
        named = {_split_name(name, pairs): pair for name, pair in pairs.items()}
        return MsMarcoCollection(corpus, {split: named[split] for split in order_splits(named)}, alone)

    def fingerprint(self) -> str:
        """A digest of the bytes of the files that are read."""
        collection = self.load()
        root = collection.corpus_file.parent
        paths = [collection.corpus_file, *(path for pair in collection.files.values() for path in pair)]
        return digest(["msmarco", self.version, tree_digest(root, [path.name for path in paths])])

    def size_hint(self) -> int:
        """About how many passages there are, from the first lines and the size of the collection file."""
        return estimate_lines(self.load().corpus_file)


@dataclass(frozen=True)
class MsMarcoCollection:
    """The opened files: for each split its queries and its qrels; `alone` are names of unpaired files."""

    corpus_file: Path
    files: dict[str, tuple[Path, Path]]
    alone: Sequence[str]
    _judged: JudgedQueries = field(default_factory=JudgedQueries)

    def documents(self) -> Iterator[Document]:
        """The passages, in the file's order, without titles."""
        return (_document(self.corpus_file, number, line) for number, line in read_lines(self.corpus_file))

    def splits(self) -> Sequence[str]:
        """The splits that have both files."""
        return list(self.files)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's qrels name, in the file's order."""
        path = self.files[split][0]
        named = {judgement.query_id for judgement in self.qrels(split)}
        numbered = ((number, _query(path, number, line)) for number, line in read_lines(path))
        return self._judged.select(str(path), numbered, named)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        return (judgement for _, judgement in iter_qrels(self.files[split][1]))

    def parts(self) -> Iterator[Part]:
        """The files as `hardneg.data.check` reads them."""
        yield line_part(self.corpus_file, _document)
        yield from split_parts(self.files)

    def notes(self) -> Sequence[str]:
        """Files without their counterpart, and how many queries no judgement names."""
        return [*(f"{name}: left out, it has no counterpart" for name in self.alone), *self._judged.notes()]


def _files(folder: Path, kind: str) -> dict[str, Path]:
    names = {path.name.removesuffix(".gz") for path in folder.glob(f"{kind}.*")}
    names = {name for name in names if name.endswith(".tsv") and len(name) > len(f"{kind}..tsv")}
    found = {name[len(kind) + 1 : -4]: find_file(folder, name) for name in sorted(names)}
    return {name: path for name, path in found.items() if path is not None}


def _split_name(name: str, pairs: dict[str, tuple[Path, Path]]) -> str:
    short = name.removesuffix(_SMALL)
    return name if short in pairs else short


def split_parts(files: dict[str, tuple[Path, Path]]) -> Iterator[Part]:
    """The queries and then the qrels of each split."""
    for split, (queries, _) in files.items():
        yield line_part(queries, _query, split)
    for split, (_, qrels) in files.items():
        yield qrels_part(qrels, split)


def _document(path: Path, number: int, line: str) -> Document:
    return Document(*_pair(path, number, line))


def _query(path: Path, number: int, line: str) -> Query:
    return Query(*_pair(path, number, line))


def _pair(path: Path, number: int, line: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) != 2:
        raise DataError.at(path, number, f"{len(cells)} columns; an id, a tab and a text are expected")
    if not one_word(cells[0]):
        raise DataError.at(path, number, f"id {cells[0]!r} is empty or holds white space")
    return cells[0], cells[1]
