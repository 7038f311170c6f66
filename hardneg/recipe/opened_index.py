"""An index folder of a finished recipe, opened to be searched with texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.formats.doc_ids import DocIds
from hardneg.formats.segments import DELIMITER
from hardneg.indexes.dense import DenseIndex
from hardneg.indexes.kernels.exact.exact import ExactOptions, ExactSearcher
from hardneg.indexes.kernels.max_passage import pooled
from hardneg.indexes.open_store import form_in, open_store
from hardneg.recipe.laid_indexes import LaidIndex
from hardneg.records.layout import DOC_IDS, SHARDS
from hardneg.records.types import Encoded, Hits
from hardneg.registry.protocols import Searcher


@dataclass
class _Numbered:
    """Numbers ids in the order in which they are met, for an index that names its documents."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, doc_ids: Sequence[str]) -> NDArray[np.int64]:
        for doc_id in doc_ids:
            if doc_id not in self.numbers:
                self.numbers[doc_id] = len(self.names)
                self.names.append(doc_id)
        return np.array([self.numbers[doc_id] for doc_id in doc_ids], np.int64)


@dataclass(frozen=True)
class OpenedIndex:
    """An index that is searched with texts.

    names: the document ids of the rows. encoder: the model of its queries; None for an index of texts.
    """

    searcher: Searcher
    names: Sequence[str]
    encoder: Any

    @classmethod
    def open(cls, laid: LaidIndex, device: str | None) -> "OpenedIndex":
        """The index and the model of its queries.

        Raises:
            ArtifactError: the index is missing or damaged.
            ModelError: the model cannot be opened.
        """
        numbered = _Numbered()
        searcher = _searcher(laid, device, numbered)
        names: Sequence[str] = DocIds(laid.folder / DOC_IDS)
        if laid.backend is not None and getattr(laid.backend, "input", None) == "texts":
            names = numbered.names
        elif (laid.folder / SHARDS).exists():
            names = DenseIndex.open(laid.folder).doc_ids
        if laid.segments:
            names = list(dict.fromkeys(name.rpartition(DELIMITER)[0] for name in names))
            searcher = pooled(searcher, laid.folder, names)
        return cls(searcher, names, None if laid.model is None else load_encoder(laid.model, device, "fp32"))

    def search(self, texts: Sequence[str], depth: int) -> Hits:
        """The best documents of each text, as rows."""
        wanted: Sequence[str] | Encoded = texts
        if self.encoder is not None:
            wanted = self.encoder.encode(texts, "query", EncodeOptions(precision="fp32"))
        return self.searcher.search(wanted, depth)


def _searcher(laid: LaidIndex, device: str | None, numbered: _Numbered) -> Searcher:
    options = ExactOptions(device=device)
    if laid.backend is not None:
        searcher: Searcher = laid.backend.open(laid.folder, numbered)
        return searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher
    if form_in(laid.folder) == "vectors" and not (laid.folder / SHARDS).exists():
        dense = DenseIndex.open(laid.folder).searcher
        return dense.using(options, None) if isinstance(dense, ExactSearcher) else dense
    return open_store(laid.folder, options)
