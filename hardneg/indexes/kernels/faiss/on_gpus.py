"""faiss indexes on GPUs, where the installed faiss supports them: trained, filled and searched there.

The written index is always one of a CPU. Several GPUs hold a part of the vectors each.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.faiss.compression import innermost, load_faiss
from hardneg.records.errors import UsageError

_MOST = 2048  # hits, and probed lists: the limit of faiss's GPU indexes
_CODES = 1 << 20  # vectors whose codes are copied at a time
_log = logging.getLogger(__name__)


def gpus(device: str | None = None) -> Sequence[int]:
    """The numbers of the GPUs that may be used: of `cuda:1` that one, of `cuda` or None all; none of another device."""
    count = load_faiss().get_num_gpus()
    if device is None or device == "cuda":
        return range(count)
    device_type, _, number = device.partition(":")
    return [int(number)] if device_type == "cuda" and int(number) < count else []


def searched_on_gpus(index: Any) -> bool:
    """Return whether faiss has this type of index on GPUs: product quantisation, and lists."""
    faiss, inner = load_faiss(), innermost(index)
    if isinstance(inner, faiss.IndexIVFPQ | faiss.IndexIVFFlat):
        return bool(inner.nprobe <= _MOST)
    return isinstance(inner, faiss.IndexPQ)


class CodeSearcher(Protocol):
    """A search in place of a faiss index."""

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores float32 and rows int64 [Q, depth], -1 where there is none."""


@dataclass
class GpuCopy:
    """A copy of an index on GPUs, its vectors divided among them; made at the first search.

    Where faiss refuses to copy it, such as for a number of subvectors that has no kernel, searches stay on the CPU.
    """

    index: Any
    devices: Sequence[int]
    _copy: Any = field(default=None, repr=False)

    @classmethod
    def now(cls, index: Any, devices: Sequence[int], path: Path) -> "GpuCopy":
        """The copy of an index, from folder `path`, that is searched too often for a CPU.

        Raises:
            UsageError: faiss refuses.
        """
        new = cls(index, devices)
        try:
            new._copy = new._on_devices()
        except RuntimeError as error:
            raise UsageError(
                f"{path}: faiss cannot copy this index to a GPU ({error}), and to search it in every step on the CPU "
                "would take many times as long: build it as pq, opq-pq or ivf-flat, with other subvectors or 8 bits, "
                "or train on the CPU"
            ) from error
        return new

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Search as faiss does: scores float32 and rows int64 [Q, depth], -1 where there is none."""
        searched = self.index if depth > _MOST or not self.devices else self._on_gpus()
        scores, rows = searched.search(queries, depth)
        return scores, rows

    def install(self, centroids: NDArray[np.float32]) -> None:
        """Discard the copy: the index has other centroids now, float32 [M, C, d / M]."""
        self._copy = None

    def _on_gpus(self) -> Any:
        if self._copy is None:
            try:
                self._copy = self._on_devices()
            except RuntimeError as error:
                _log.warning("this index is searched on the CPU: faiss cannot copy it to a GPU: %s", error)
                self.devices = ()
                return self.index
        return self._copy

    def _on_devices(self) -> Any:
        lists = _in_lists(self.index)
        try:
            return _copied(lists, self.devices, shard=True)
        except RuntimeError:
            if not isinstance(innermost(lists), load_faiss().IndexIVFPQ):
                raise
            copied = _copied(lists, self.devices, shard=True, half=True)
        _log.warning(
            "this index is searched with tables of half precision on the GPU, as those of float32 do not fit there"
        )
        return copied


def _copied(index: Any, devices: Sequence[int], shard: bool, half: bool = False) -> Any:
    """On all these GPUs: a part of the vectors on each, or all of them; half: with tables to look up in float16."""
    faiss = load_faiss()
    options = faiss.GpuMultipleClonerOptions()
    options.shard, options.useFloat16 = shard, half
    return faiss.index_cpu_to_gpus_list(index, co=options, gpus=list(devices))


def _in_lists(index: Any) -> Any:
    """The same codes in one list around the origin, the form that GPUs have of product quantisation; else `index`."""
    faiss, inner = load_faiss(), innermost(index)
    if not isinstance(inner, faiss.IndexPQ):
        return index
    centre = faiss.IndexFlatIP(inner.d)
    centre.add(np.zeros((1, inner.d), np.float32))
    lists = faiss.IndexIVFPQ(centre, inner.d, 1, inner.pq.M, inner.pq.nbits, faiss.METRIC_INNER_PRODUCT)
    lists.pq, lists.nprobe, lists.is_trained = inner.pq, 1, True
    codes = faiss.rev_swig_ptr(inner.codes.data(), inner.codes.size()).reshape(inner.ntotal, inner.code_size)
    for start in range(0, len(codes), _CODES):
        lists.add_sa_codes(np.ascontiguousarray(codes[start : start + _CODES]))
    if not isinstance(index, faiss.IndexPreTransform):
        return lists
    return faiss.IndexPreTransform(faiss.downcast_VectorTransform(index.chain.at(0)), lists)


@contextmanager
def trained_on_gpus(index: Any) -> Iterator[None]:
    """Let faiss use all GPUs for the clusterings while it trains `index`."""
    if not (devices := gpus()):
        yield
        return
    lent = [(owner, name, _copied(like, devices, shard=False)) for owner, name, like in _clusterings(index)]
    for owner, name, copy in lent:  # faiss only points to the copies, which live until the end of the block
        setattr(owner, name, copy)
    try:
        yield
    finally:
        for owner, name, _ in lent:
            setattr(owner, name, None)


def _clusterings(index: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the indexes that faiss trains with: their owner, attribute name, and an empty index like it."""
    faiss, inner = load_faiss(), innermost(index)
    if isinstance(inner, faiss.IndexIVF):
        same = faiss.IndexFlatIP if inner.quantizer.metric_type == faiss.METRIC_INNER_PRODUCT else faiss.IndexFlatL2
        yield inner, "clustering_index", same(inner.d)
    if isinstance(inner, faiss.IndexPQ | faiss.IndexIVFPQ):
        yield inner.pq, "assign_index", faiss.IndexFlatL2(inner.pq.dsub)
    rotation = faiss.downcast_VectorTransform(index.chain.at(0)) if inner is not index and index.chain.size() else None
    if isinstance(rotation, faiss.OPQMatrix) and rotation.pq is not None:
        yield rotation.pq, "assign_index", faiss.IndexFlatL2(rotation.pq.dsub)


def encoder_of(index: Any) -> Callable[[NDArray[np.float32]], NDArray[np.uint8]]:
    """Return the encoder of vectors float32 [n, d] to codes uint8 [n, bytes]; GPUs, if any, assign the lists."""
    faiss, devices = load_faiss(), gpus()
    if not devices or not isinstance(index, faiss.IndexIVF):
        encode: Callable[[NDArray[np.float32]], NDArray[np.uint8]] = index.sa_encode
        return encode
    centres = _copied(faiss.downcast_index(index.quantizer), devices, shard=False)

    def encode_by_lists(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
        lists = np.ascontiguousarray(centres.search(vectors, 1)[1][:, 0])
        codes = np.empty((len(vectors), index.sa_code_size()), np.uint8)
        pointers = (faiss.swig_ptr(array) for array in (vectors, lists, codes))
        index.encode_vectors(len(vectors), *pointers, True)
        return codes

    return encode_by_lists
