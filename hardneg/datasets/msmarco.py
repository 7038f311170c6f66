"""MS MARCO's passage collection as its tab-separated files, each maybe with `.gz`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.data.source_files import line_part, order_splits
from hardneg.data.text_lines import estimate_lines, find_file
from hardneg.data.topics import query_line
from hardneg.datasets.topic_files import Pairs, PartedCollection
from hardneg.digest import digest
from hardneg.errors import DataError
from hardneg.types import Document

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

    def load(self) -> PartedCollection:
        """The collection, opened for streaming. Raises DataError where a file is missing."""
        folder = Path(self.source).expanduser()
        corpus = find_file(folder, "collection.tsv")
        if corpus is None:
            raise DataError(
                f"{folder}: neither collection.tsv nor collection.tsv.gz; `hardneg data fetch msmarco-passage`"
            )
        queries, qrels = _files(folder, "queries"), _files(folder, "qrels")
        pairs = {name: (queries[name], qrels[name]) for name in queries if name in qrels}
        if not pairs:
            raise DataError(f"{folder}: no split has both queries.SPLIT.tsv and qrels.SPLIT.tsv")
        unpaired = queries.keys() ^ qrels.keys()
        alone = sorted(({**queries, **qrels})[name].name for name in unpaired)
        named = {_split_name(name, pairs): pair for name, pair in pairs.items()}
        found = Pairs({split: named[split] for split in order_splits(named)}, alone)
        return PartedCollection([line_part(corpus, _document)], found.queries(), found.qrels(), found.notes())

    def fingerprint(self) -> str:
        """A digest of the bytes of the files that are read."""
        return digest(["msmarco", self.version, self.load().digest(Path(self.source).expanduser())])

    def size_hint(self) -> int:
        """About how many passages there are, from the first lines and the size of the collection file."""
        return estimate_lines(Path(self.load().documents_in[0].name))


def _files(folder: Path, kind: str) -> dict[str, Path]:
    names = {path.name.removesuffix(".gz") for path in folder.glob(f"{kind}.*")}
    names = {name for name in names if name.endswith(".tsv") and len(name) > len(f"{kind}..tsv")}
    found = {name[len(kind) + 1 : -4]: find_file(folder, name) for name in sorted(names)}
    return {name: path for name, path in found.items() if path is not None}


def _split_name(name: str, pairs: dict[str, tuple[Path, Path]]) -> str:
    short = name.removesuffix(_SMALL)
    return name if short in pairs else short


def _document(path: Path, number: int, line: str) -> Document:
    return Document(*query_line(path, number, line))
