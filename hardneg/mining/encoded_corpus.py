"""A corpus encoded by a model for one mining, and its searchers."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.formats.corpus import Corpus
from hardneg.formats.segments import Segments
from hardneg.indexes.kernels.exact.exact import ExactOptions, ExactSearcher
from hardneg.indexes.kernels.max_passage import pooled
from hardneg.indexes.open_store import open_store
from hardneg.registry.protocols import IndexBackend, Searcher
from hardneg.runtime.distributed import world
from hardneg.runtime.progress import Silent

_BUILT = "searched"
"""The folder of a built index, within that of the vectors."""


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus encoded by a model, in a folder of its own, and the index built of it.

    backend: builds that index; None: exact search of the encoded corpus. device: of the exact search.
    """

    corpus: Corpus
    folder: Path
    device: str
    backend: IndexBackend | None = None

    def write(
        self, encoders: Sequence[Encoder], segments: Segments | None, counts: Path, options: EncodeOptions
    ) -> None:
        """Encode what is missing; each of several processes calls this, and encodes a part.

        counts: the file of the numbers of segments, which depend on no weights.
        """
        rows = encoders[0].rows(self.corpus, segments, counts, Silent(), world())
        write_index(encoders, rows, self.folder, options, Silent())

    def build(self) -> None:
        """Build the index, if there is a backend; what a killed process left of it is replaced."""
        if self.backend is not None:
            shutil.rmtree(self.folder / _BUILT, ignore_errors=True)
            (self.folder / _BUILT).mkdir()
            self.backend.build(self.folder, self.folder / _BUILT, Silent())

    @cached_property
    def exact(self) -> Searcher:
        """Exact search of the encoded corpus, by document."""
        return self._pooled(open_store(self.folder, ExactOptions(device=self.device)))

    @cached_property
    def searcher(self) -> Searcher:
        """Search of the built index, or else of the encoded corpus, by document."""
        if self.backend is None:
            return self.exact
        searcher = self.backend.open(self.folder / _BUILT, self.corpus.rows)
        options = ExactOptions(device=self.device)
        return self._pooled(searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher)

    def _pooled(self, searcher: Searcher) -> Searcher:
        return pooled(searcher, self.folder, self.corpus.doc_ids)
