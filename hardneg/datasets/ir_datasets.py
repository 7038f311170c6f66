"""Collections of the `ir_datasets` catalogue, by their ids."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from hardneg.datasets.hub_tables import numbered_rows
from hardneg.formats.source_files import JudgedQueries, order_splits
from hardneg.records.errors import DataError, MissingDependency
from hardneg.records.types import Document, Judgement, Query
from hardneg.store.digest import digest, file_digest

_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}


@dataclass(frozen=True)
class IrDatasets:
    """A dataset of the `ir_datasets` package, which downloads it or says what to download.

    An id with queries and qrels, such as `beir/scifact/test`, is one split, named by its last word, or `test`. Of an id
    with documents alone, such as `msmarco-passage`, the subsets train, dev (or valid) and test are the splits. A
    document's title and text (or body) are read; where it has other fields, its default text. Queries without
    judgements are left out and noted.

    Source: MacAvaney et al., "Simplified Data Wrangling with ir_datasets", SIGIR 2021.

    Args:
        source: the id whose documents are the corpus.
        splits: for each split the id whose queries and qrels it has; empty finds them as told above.
    """

    source: str
    splits: Mapping[str, str] = field(default_factory=dict)
    version: ClassVar[int] = 2
    extra: ClassVar[str] = "ir-datasets"

    def load(self) -> "IrCollection":
        """The collection, opened for streaming.

        Raises:
            DataError: there is no such id, or it has no documents, or no split has queries and qrels.
            MissingDependency: `ir_datasets` is not installed.
        """
        corpus = _open(self.source)
        if not corpus.has_docs():
            raise DataError(f"ir-datasets:{self.source}: it has no documents; give the id that has them")
        named = {split: _open(name) for split, name in self._judged(corpus).items()}
        poor = [split for split, opened in named.items() if not (opened.has_queries() and opened.has_qrels())]
        if poor or not named:
            lack = f"{', '.join(poor)} without queries or qrels" if poor else "no subset with queries and qrels"
            raise DataError(f"ir-datasets:{self.source}: {lack}; name ids that have both in `splits`")
        return IrCollection(self.source, corpus, {split: named[split] for split in order_splits(named)})

    def fingerprint(self) -> str:
        """A digest of the ids and of what the catalogue says of their files, of which none is fetched.

        Of a dataset that is not in the catalogue, but was registered by the user, the content counts.
        """
        collection = self.load()
        judged = self._judged(collection.corpus)
        content = [_catalogued(self.source) or _content(collection.corpus, "docs")]
        content += [
            _catalogued(judged[split]) or _content(opened, part)
            for split, opened in collection.judged.items()
            for part in ("queries", "qrels")
        ]
        names = [self.source, *sorted(judged.items())]
        return digest(["ir-datasets", self.version, names, list(collection.splits()), content])

    def size_hint(self) -> int:
        """The number of documents by the catalogue, 0 where that does not say."""
        with suppress(Exception):
            return int(_open(self.source).metadata()["docs"]["count"])
        return 0

    def _judged(self, corpus: Any) -> dict[str, str]:
        """The id of each split's queries and qrels."""
        if self.splits:
            return dict(self.splits)
        if corpus.has_queries() and corpus.has_qrels():
            return {_SPLITS.get(self.source.rpartition("/")[2], "test"): self.source}
        ids: dict[str, str] = {}
        for word, split in _SPLITS.items():
            with suppress(DataError):
                subset = _open(f"{self.source}/{word}")
                if subset.has_queries() and subset.has_qrels():
                    ids.setdefault(split, f"{self.source}/{word}")
        return ids


@dataclass(frozen=True)
class IrCollection:
    """The opened dataset: documents of one id, queries and qrels of one id a split."""

    source: str
    corpus: Any
    judged: Mapping[str, Any]
    _judged: JudgedQueries = field(default_factory=JudgedQueries)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the dataset's order."""
        return (_document(item) for _, item in _rows(f"{self.source} documents", self.corpus.docs_iter()))

    def splits(self) -> Sequence[str]:
        """The splits that have queries and qrels."""
        return list(self.judged)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's judgements name, in the dataset's order."""
        named = {judgement.query_id for judgement in self.qrels(split)}
        where = f"{self.source} queries of {split}"
        items = _rows(where, self.judged[split].queries_iter())
        return self._judged.select(where, ((number, _query(item)) for number, item in items), named)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        items = _rows(f"{self.source} qrels of {split}", self.judged[split].qrels_iter())
        return (Judgement(item.query_id, item.doc_id, int(item.relevance)) for _, item in items)

    def notes(self) -> Sequence[str]:
        """How many queries no judgement names."""
        return self._judged.notes()


def _open(name: str) -> Any:
    try:
        import ir_datasets
    except ImportError as error:
        reason = 'needs ir_datasets: pip install "hardneg[ir-datasets]"'
        raise MissingDependency(f"ir-datasets:{name} {reason}") from error
    try:
        return ir_datasets.load(name)
    except KeyError as error:
        raise DataError(f"ir-datasets:{name}: the installed ir_datasets has no such id; `ir_datasets list`") from error
    except Exception as error:
        raise DataError(f"ir-datasets:{name} cannot be opened: {str(error).splitlines()[0:1]}") from error


def _rows(where: str, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return numbered_rows(f"ir-datasets:{where}", items)


def _document(item: Any) -> Document:
    values = (getattr(item, name, None) for name in ("text", "body"))
    text = next((value for value in values if value is not None), None)
    if not isinstance(text, str):
        return Document(item.doc_id, item.default_text())
    return Document(item.doc_id, text, getattr(item, "title", None) or "")


def _query(item: Any) -> Query:
    return Query(item.query_id, item.default_text() if hasattr(item, "default_text") else item.text)


def _catalogued(name: str) -> str:
    """What the installed catalogue says of the files behind an id, as a digest; empty for an id that it lacks."""
    import ir_datasets

    top = name.partition("/")[0]
    folder = Path(getattr(ir_datasets, "__file__", None) or "nowhere").parent
    if not (folder / "docs" / f"{top}.yaml").is_file():
        return ""
    files = json.loads((folder / "etc" / "downloads.json").read_text(encoding="utf-8")).get(top)
    return digest([name, files])


def _content(opened: Any, part: str) -> str:
    with suppress(Exception):
        path = Path(getattr(opened, f"{part}_path")())
        if path.is_file():
            return file_digest(path)
    state = hashlib.blake2b(digest_size=16)
    for _, item in _rows(part, getattr(opened, f"{part}_iter")()):
        state.update(repr(tuple(item)).encode(errors="surrogatepass"))
    return state.hexdigest()
