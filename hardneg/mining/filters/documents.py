"""The filter `documents`: negatives come from a named set of documents alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.text_lines import read_lines
from hardneg.mining.filter_texts import MiningTexts
from hardneg.records.errors import DataError, PluginError
from hardneg.records.types import Candidates
from hardneg.store.digest import file_digest

REASON = "outside the named documents"


@dataclass(frozen=True, kw_only=True)
class DocumentsFilter:
    """Drops the documents that are judged for queries of other splits, or that a file does not name.

    A model that is trained with documents of dev and test queries, be it as negatives, has seen them: what it then
    does on unseen documents is not known.

    Attributes:
        of: the split whose documents stay, those that are judged for no query of another split; the default is the
            split that is mined.
        file: the ids of the documents that stay, one a line, in place of `of`; what it holds counts in keys, and not
            where it lies.
    """

    version: ClassVar[int] = 1
    path_options: ClassVar[tuple[str, ...]] = ("file",)

    of: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if self.of and self.file:
            raise PluginError("of, file: name a split or a file of ids, not both")

    def fingerprint(self) -> str:
        """A digest of the file. Raises DataError where it is not there."""
        if self.file and not self._path.is_file():
            raise DataError(f"documents.file: no file {self.file}: give the ids of documents, one a line")
        return file_digest(self._path) if self.file else ""

    def reasons(self, candidates: Iterable[Candidates], texts: MiningTexts) -> Iterator[Mapping[str, str]]:
        """`outside the named documents` for each candidate that is.

        Raises:
            DataError: the collection has no such split, or the file names no document of the corpus.
        """
        collection, own = texts.collection, self.of or texts.split
        if not self.file and own not in collection.splits:
            raise DataError(f"documents.of: no split {own!r} in this collection; it has {', '.join(collection.splits)}")
        corpus, named = collection.corpus, self._named(texts) if self.file else None
        others = (collection.qrels(split) for split in collection.splits if split != own)
        elsewhere = {doc_id for qrels in others for judged in qrels.values() for doc_id in judged}
        for query in candidates:
            outside: Iterable[str] = elsewhere.intersection(query.listed)
            if named is not None:
                inside = named[corpus.known_rows(query.listed, "candidate", "search this corpus again")]
                outside = [doc_id for doc_id, stays in zip(query.listed, inside.tolist(), strict=True) if not stays]
            yield dict.fromkeys(outside, REASON)

    def _named(self, texts: MiningTexts) -> NDArray[np.bool_]:
        """Whether the file names each document of the corpus: bool [N]."""
        doc_ids = [line.strip() for _, line in read_lines(self._path) if line.strip()]
        if not doc_ids:
            raise DataError(f"{self._path}: names no document")
        named = np.zeros(len(texts.collection.corpus), bool)
        named[texts.collection.corpus.known_rows(doc_ids, f"{self._path}:", "leave it out of the file")] = True
        return named

    @property
    def _path(self) -> Path:
        return Path(self.file).expanduser()
