"""A corpus as a model encodes it for one mining, and what searches it."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions
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
    """A corpus as a model encodes it, in a folder of its own, and the index that is searched in its place.

    backend: builds that index; None searches what was encoded itself, exactly. device: where that is done.
    """

    corpus: Corpus
    folder: Path
    device: str
    backend: IndexBackend | None = None

    def write(
        self, encoders: Sequence[Encoder], segments: Segments | None, counts: Path, options: EncodeOptions
    ) -> None:
        """Encodes what is not there yet; each of several processes calls this, and encodes a part.

        counts: where the numbers of segments stay: they depend on no weights.
        """
        rows = encoders[0].rows(self.corpus, segments, counts, Silent(), world())
        write_index(encoders, rows, self.folder, options, Silent())

    def build(self) -> None:
        """Builds the index, where there is to be one; what a killed process left of it is made again."""
        if self.backend is not None:
            shutil.rmtree(self.folder / _BUILT, ignore_errors=True)
            (self.folder / _BUILT).mkdir()
            self.backend.build(self.folder, self.folder / _BUILT, Silent())

    @cached_property
    def exact(self) -> Searcher:
        """Searches what was encoded, by document."""
        return self._pooled(open_store(self.folder, ExactOptions(device=self.device)))

    @cached_property
    def searcher(self) -> Searcher:
        """Searches the built index, or what was encoded itself; by document."""
        if self.backend is None:
            return self.exact
        searcher = self.backend.open(self.folder / _BUILT, self.corpus.rows)
        options = ExactOptions(device=self.device)
        return self._pooled(searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher)

    def _pooled(self, searcher: Searcher) -> Searcher:
        return pooled(searcher, self.folder, self.corpus.doc_ids)
