"""Loaders of MS MARCO's passages and documents from their tab-separated files, plain or `.gz`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from hardneg.plugin import Document, errors, source_files, stores, text_lines
from hardneg_datasets.topics import paired

_SMALL = ".small"
_CORPUS = "msmarco-docs.tsv"


@dataclass(frozen=True)
class MsMarcoPassage:
    """A folder with `collection.tsv`, and `queries.SPLIT.tsv` and `qrels.SPLIT.tsv` for each split.

    The official file names are recognised: `queries.dev.small.tsv` and `qrels.dev.small.tsv` are the split
    `dev`, or `dev.small` if there is also a complete `dev`. Queries without judgements (many of
    `queries.train.tsv`, all of `queries.eval.tsv`) are left out and noted.

    Source: Bajaj et al., "MS MARCO: A Human Generated MAchine Reading COmprehension Dataset", 2016.

    Args:
        source: the folder; each file plain or `.gz`.
        judged: whether to read queries and qrels; if false, only the passages are read, and no qrels are needed.
    """

    source: str
    judged: bool = True
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"judged"})
    known_by: ClassVar[tuple[str, ...]] = ("collection.tsv", "collection.tsv.gz")

    def load(self) -> source_files.PartedCollection:
        """Return the collection, opened for streaming. Raises DataError if a file is missing."""
        folder = Path(self.source).expanduser()
        corpus = text_lines.find_file(folder, "collection.tsv")
        if corpus is None:
            raise errors.DataError(
                f"{folder}: no collection.tsv or collection.tsv.gz; run `hardneg data fetch msmarco-passage`"
            )
        if not self.judged:
            return source_files.PartedCollection([source_files.line_part(corpus, _passage)], {}, {})
        whole = paired(folder, [source_files.line_part(corpus, _passage)], {})
        known = whole.queries_in
        shorter = {name: name.removesuffix(_SMALL) for name in known}
        named = {name if short in known else short: name for name, short in shorter.items()}
        order = {split: named[split] for split in source_files.order_splits(named)}
        queries, qrels = ({split: of[name] for split, name in order.items()} for of in (known, whole.qrels_in))
        return replace(whole, queries_in=queries, qrels_in=qrels)

    def fingerprint(self) -> str:
        """Return a digest of the files' bytes."""
        return stores.digest(["msmarco", self.version, self.load().digest(Path(self.source).expanduser())])

    def size_hint(self) -> int:
        """Estimate the number of passages from the first lines and the size of the collection file."""
        return text_lines.estimate_lines(Path(self.load().documents_in[0].name))


def _passage(path: Path, number: int, line: str) -> Document:
    return Document(*source_files.query_line(path, number, line))


@dataclass(frozen=True)
class MsMarcoDocument:
    """A folder with `msmarco-docs.tsv` (id, URL, title, body), and topics and qrels for each split.

    The official file names are recognised: `msmarco-doctrain-queries.tsv` and `msmarco-doctrain-qrels.tsv` are split
    `train`; `msmarco-test2019-queries.tsv` and `2019qrels-docs.txt` are `test2019`. Other splits need a file
    `queries.SPLIT.tsv` or `topics.SPLIT.txt`, and `qrels.SPLIT.tsv` or `.txt`. Unjudged queries are left out and noted.

    Source: Craswell et al., "Overview of the TREC 2019 Deep Learning Track", 2020.

    Args:
        source: the folder; each file plain or `.gz`.
        url: whether to start a document's text with its URL.
        splits: topics and qrels by split, as file names in the folder; if empty, files are found by name.
    """

    source: str
    url: bool = False
    splits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    version: ClassVar[int] = 1
    known_by: ClassVar[tuple[str, ...]] = (_CORPUS, f"{_CORPUS}.gz")

    def load(self) -> source_files.PartedCollection:
        """Return the collection, opened for streaming. Raises DataError if a file is missing."""
        corpus = self._corpus()
        return paired(corpus.parent, [source_files.line_part(corpus, partial(_document, self.url))], self.splits)

    def fingerprint(self) -> str:
        """Return a digest of the files' bytes, their splits, and `url`."""
        collection, root = self.load(), self._corpus().parent
        return stores.digest(
            ["msmarco-doc", self.version, self.url, list(collection.splits()), collection.digest(root)]
        )

    def size_hint(self) -> int:
        """Estimate the number of documents from the first lines and the size of the corpus file."""
        return text_lines.estimate_lines(self._corpus())

    def _corpus(self) -> Path:
        folder = Path(self.source).expanduser()
        corpus = text_lines.find_file(folder, _CORPUS)
        if corpus is None:
            raise errors.DataError(f"{folder}: no {_CORPUS} or {_CORPUS}.gz; run `hardneg data fetch msmarco-document`")
        return corpus


def _document(with_url: bool, path: Path, number: int, line: str) -> Document:
    cells = line.split("\t")
    if len(cells) != 4:
        raise errors.DataError.at(path, number, f"expected 4 columns (id, URL, title, body), found {len(cells)}")
    doc_id, url, title, body = cells
    return Document(text_lines.checked_id(path, number, doc_id), f"{url} {body}" if with_url else body, title)
