"""A loader of collections in the `ir_datasets` catalogue, by id."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from hardneg.plugin import Document, Judgement, Query, errors, hub_tables, records, source_files, stores

_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}


@dataclass(frozen=True)
class IrDatasets:
    """A dataset of the `ir_datasets` package, which downloads the files or explains how to get them.

    If the id has queries and qrels, such as `beir/scifact/test`, it is one split, named after the last part of the id
    (or `test` if that is not a split name). If it has only documents, such as `msmarco-passage`, its subsets train, dev
    (or valid) and test are the splits. A document's title and text (or body) are read; without these fields, its
    default text is used. Queries without judgements are left out and noted.

    Source: MacAvaney et al., "Simplified Data Wrangling with ir_datasets", SIGIR 2021.

    Args:
        source: the id of the corpus.
        splits: the id of the queries and qrels by split; if empty, they are found as described above.
    """

    source: str
    splits: Mapping[str, str] = field(default_factory=dict)
    version: ClassVar[int] = 2

    def load(self) -> source_files.PartedCollection:
        """Return the collection, opened for streaming.

        Raises DataError if the id is unknown or has no documents, or if queries or qrels are missing.
        """
        where, (corpus, judged), part = f"ir-datasets:{self.source}", self._opened(), hub_tables.row_part
        queries, qrels = dict[str, source_files.Part](), dict[str, source_files.Part]()
        for split, (_, opened) in judged.items():
            queries[split] = part(f"{where} queries of {split}", opened.queries_iter, _query, split)
            qrels[split] = part(f"{where} qrels of {split}", opened.qrels_iter, _judgement, split)
        documents = part(f"{where} documents", corpus.docs_iter, _document)
        return source_files.PartedCollection([documents], queries, qrels)

    def fingerprint(self) -> str:
        """Return a digest of the ids and of the catalogue's entries for their files, which are not downloaded.

        If a dataset is registered but not in the catalogue, its content is part of the digest instead.
        """
        corpus, judged = self._opened()
        content = [_catalogued(self.source) or _content(corpus, "docs")]
        content += [
            _catalogued(name) or _content(opened, part)
            for name, opened in judged.values()
            for part in ("queries", "qrels")
        ]
        names = [self.source, *sorted((split, name) for split, (name, _) in judged.items())]
        return stores.digest(["ir-datasets", self.version, names, list(judged), content])

    def size_hint(self) -> int:
        """Return the number of documents according to the catalogue; 0 if unknown."""
        with suppress(Exception):
            return int(_open(self.source).metadata()["docs"]["count"])
        return 0

    def _opened(self) -> tuple[Any, dict[str, tuple[str, Any]]]:
        """Return the opened corpus and, for each split, the id of its queries and qrels with the opened dataset."""
        corpus, named = _open(self.source), dict(self.splits)
        if not corpus.has_docs():
            raise errors.DataError(f"ir-datasets:{self.source}: has no documents; use an id that has some")
        if not named and _judged(corpus):
            named = {_SPLITS.get(self.source.rpartition("/")[2], "test"): self.source}
        elif not named:
            for word, split in _SPLITS.items():
                with suppress(errors.DataError):
                    if _judged(_open(f"{self.source}/{word}")):
                        named.setdefault(split, f"{self.source}/{word}")
        judged = {split: (named[split], _open(named[split])) for split in source_files.order_splits(named)}
        poor = [split for split, (_, each) in judged.items() if not _judged(each)]
        if poor or not judged:
            lack = f"{', '.join(poor)} without queries or qrels" if poor else "no subset with queries and qrels"
            raise errors.DataError(f"ir-datasets:{self.source}: {lack}; set ids that have both in `splits`")
        return corpus, judged


def _judged(opened: Any) -> bool:
    return bool(opened.has_queries() and opened.has_qrels())


def _open(name: str) -> Any:
    import ir_datasets

    try:
        return ir_datasets.load(name)
    except KeyError as error:
        raise errors.DataError(
            f"ir-datasets:{name}: unknown to the installed ir_datasets; `ir_datasets list` lists all ids"
        ) from error
    except Exception as error:
        raise errors.DataError(f"ir-datasets:{name}: cannot be opened ({records.first_line(error)})") from error


def _document(where: str, number: int, item: Any) -> Iterator[Document]:
    values = (getattr(item, name, None) for name in ("text", "body"))
    text = next((value for value in values if value is not None), None)
    if isinstance(text, str):
        yield Document(item.doc_id, text, getattr(item, "title", None) or "")
    else:
        yield Document(item.doc_id, item.default_text())


def _query(where: str, number: int, item: Any) -> Iterator[Query]:
    yield Query(item.query_id, item.default_text() if hasattr(item, "default_text") else item.text)


def _judgement(where: str, number: int, item: Any) -> Iterator[Judgement]:
    yield Judgement(item.query_id, item.doc_id, int(item.relevance))


def _catalogued(name: str) -> str:
    """Return a digest of the catalogue's entry for an id's files; empty for an id that is not in the catalogue."""
    import ir_datasets

    top = name.partition("/")[0]
    folder = Path(getattr(ir_datasets, "__file__", None) or "nowhere").parent
    if not (folder / "docs" / f"{top}.yaml").is_file():
        return ""
    files = json.loads((folder / "etc" / "downloads.json").read_text(encoding="utf-8")).get(top)
    return stores.digest([name, files])


def _content(opened: Any, part: str) -> str:
    with suppress(Exception):
        path = Path(getattr(opened, f"{part}_path")())
        if path.is_file():
            return stores.file_digest(path)
    state = hashlib.blake2b(digest_size=16)
    for _, item in hub_tables.numbered_rows(f"ir-datasets:{part}", getattr(opened, f"{part}_iter")()):
        state.update(repr(tuple(item)).encode(errors="surrogatepass"))
    return state.hexdigest()
