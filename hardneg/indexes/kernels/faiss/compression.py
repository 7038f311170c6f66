"""Indexes of faiss: trained on a sample, filled block by block, saved and read; on GPUs where faiss supports them.

The written index is always one of a CPU. Several GPUs hold a part of the vectors each.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite, vector_blocks
from hardneg.records.errors import ArtifactError, MissingDependency, UsageError
from hardneg.runtime.progress import Progress
from hardneg.runtime.seeding import generator
from hardneg.store.atomic_write import link_file, replacing

_BLOCK_BYTES = 32 << 20
SUBVECTORS, BITS, SAMPLE = 48, 8, 65_536
"""Of codes, by default: parts of a vector, bits of each, and how many vectors are trained on at most."""
ROUNDS = 10
"""The k-means iterations of faiss for the centres of lists."""
TRAINING = 50e9
"""Multiplications and additions a second, on the one thread that trains; as measured."""
_ROUNDS_OF_PARTS, _ROUNDS_TURNED = 25, 4  # the same for centroids of parts; and for each rotation


def load_faiss() -> Any:
    """The module faiss.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency('this kind of index needs faiss: pip install "hardneg[cpu]", or "[gpu]"') from error
    return faiss


@dataclass(frozen=True)
class Training:
    """The training sample of an index.

    name: of the kind of index, for messages. sample: how many vectors at most. least: how many it takes. seed: of the
    draw. what: in messages, the part that needs so many.
    """

    name: str
    sample: int
    least: int
    seed: int
    what: str

    def check(self) -> None:
        """Refuse a sample that is too small for any vectors.

        Raises:
            UsageError: it is.
        """
        if self.sample < self.least:
            raise UsageError(f"{self.name}: sample is {self.sample}: {self.what} take {self.least} vectors or more")

    def settle(self, clustering: Any) -> None:
        """Seed one of faiss's clusterings, and let it use the whole sample, even a small one."""
        clustering.seed = self.seed % (1 << 31)
        clustering.min_points_per_centroid = 1
        clustering.max_points_per_centroid = self.sample


def train(index: Any, vectors: FlatVectors, training: Training, progress: Progress) -> None:
    """Trains a faiss index, on one thread: the sums of several would depend on how many there are.

    Raises:
        UsageError: there are too few vectors.
        ArtifactError: a vector that was drawn is not finite.
    """
    if len(vectors) < training.least:
        raise UsageError(
            f"{training.name}: {vectors.folder} holds {len(vectors)} vectors, but {training.what} take "
            f"{training.least} or more: ask for fewer, or take sq8, fp16 or flat"
        )
    rows = sample_rows(len(vectors), training.sample, training.seed)
    block = np.empty((len(rows), vectors.dimension), np.float32)
    for position, row in enumerate(rows):  # not by the memory map, which would keep what lies around each row
        vectors.read(int(row), int(row) + 1, block[position : position + 1])
    check_finite(block, rows)
    with progress.task("train", len(rows), "passages") as task, threads(1):
        index.train(block)
        task.advance(len(rows))


def sample_rows(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """At most `size` of `count` rows, ascending: one drawn from each of as many equal stretches."""
    size = min(size, count)
    edges = np.arange(size + 1, dtype=np.int64) * count // max(size, 1)
    return generator(seed, "index sample").integers(edges[:-1], edges[1:])


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let faiss compute on `count` threads."""
    faiss = load_faiss()
    had = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(had)


def encode_blocks(
    vectors: FlatVectors, encode: Callable[[NDArray[np.float32]], Any], progress: Progress
) -> Iterator[Any]:
    """Encode each block of the vectors, float32 [n, d]."""
    with progress.task("compress", len(vectors), "passages") as task:
        for _, block in vector_blocks(vectors, max(1, _BLOCK_BYTES // (4 * vectors.dimension))):
            yield encode(block)
            task.advance(len(block))


def write_folder(index: Any, codes: Iterable[NDArray[np.uint8]], rows: int, source: Path, path: Path) -> int:
    """Writes the index folder `path`: a trained, empty faiss index with `codes`, and the docid file of `source`.

    Memory: the codes, as in every search of the index; of the vectors, a block.

    Args:
        index: it holds the codes afterwards.
        codes: uint8 [n, bytes a vector], from the index's own `sa_encode`, in row order.
        rows: how many there are in all.
        source: a dense index folder.
        path: the folder to write.

    Returns:
        The number of vectors.

    Raises:
        ArtifactError: the installed faiss does not read what was written.
    """
    inner = innermost(index)
    make_room(inner, rows)
    for block in codes:
        inner.add_sa_codes(np.ascontiguousarray(block))
    index.ntotal = inner.ntotal
    return save(index, rows, source, path)


def make_room(index: Any, rows: int) -> None:
    """Allocate the memory for the codes of `rows` vectors at once: growing it would hold it twice for a moment."""
    if isinstance(index, load_faiss().IndexFlatCodes):
        index.codes.resize(rows * index.code_size)


def save(index: Any, rows: int, source: Path, path: Path) -> int:
    """Writes a faiss index of `rows` vectors in folder `path`, and beside it the docid file of `source`; returns rows.

    Raises:
        ArtifactError: the installed faiss does not read what was written.
    """
    faiss = load_faiss()
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / "index") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    if (written := read_index(path / "index", mapped=True).ntotal) != rows:
        raise ArtifactError(f"{path}: faiss reads {written} of {rows} vectors: install another faiss")
    link_file(source / "docid", path / "docid")
    return rows


def innermost(index: Any) -> Any:
    """Return the index that holds the codes, without a transform of the vectors."""
    faiss = load_faiss()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def read_index(path: Path, mapped: bool = False) -> Any:
    """A faiss index in memory, or `mapped` where the installed faiss can: a file must be whole for that.

    Raises:
        ArtifactError: the file is missing, damaged, or none of faiss.
    """
    faiss = load_faiss()
    try:
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0)
    except (RuntimeError, MemoryError) as error:
        raise ArtifactError(f"{path}: not a faiss index that can be read: build it again") from error


@dataclass(frozen=True)
class Codebook:
    """Each vector is cut into `subvectors` parts; a part's code of `bits` bits names one of 2^bits centroids."""

    name: str
    subvectors: int
    bits: int
    sample: int
    seed: int

    @property
    def centroids(self) -> int:
        """How many there are for each part."""
        return int(2**self.bits)

    def disk_bytes(self, vectors: int, dimension: int, lists: int = 0, turned: bool = False) -> int:
        """The codes, and tables: centroids, centres of lists, a rotation where vectors are turned."""
        tables = 4 * dimension * (self.centroids + lists + dimension * turned)
        return self.codes(vectors, lists) + tables

    def codes(self, vectors: float, lists: int = 0) -> int:
        """Return the bytes of so many vectors' codes, in lists with their rows' numbers."""
        return round((self.subvectors * self.bits / 8 + 8 * bool(lists)) * vectors)

    def check(self) -> None:
        """Refuse options that fit no vectors.

        Raises:
            UsageError: they do not.
        """
        if self.subvectors < 1 or not 1 <= self.bits <= 8:
            raise UsageError(
                f"{self.name}: subvectors is {self.subvectors} and bits is {self.bits}: "
                "subvectors must be at least 1, and bits from 1 to 8"
            )
        self.training().check()

    def training(self, lists: int = 0) -> Training:
        """Return the training sample of the quantiser and of the centroids of `lists` lists."""
        least = max(self.centroids, lists)
        what = f"{lists} lists" if lists == least else f"{self.centroids} centroids ({self.bits} bits)"
        return Training(self.name, self.sample, least, self.seed, what)

    def check_dimension(self, dimension: int) -> None:
        """Refuse vectors that cannot be cut into so many equal parts.

        Raises:
            UsageError: they cannot; the message lists the numbers that fit.
        """
        if dimension % self.subvectors:
            fitting = ", ".join(str(m) for m in range(1, dimension + 1) if dimension % m == 0)
            raise UsageError(
                f"{self.name}: vectors of dimension {dimension} cannot be cut into {self.subvectors} subvectors; "
                f"these fit: {fitting}"
            )

    def codes_of(self, index: Any, vectors: FlatVectors, progress: Progress) -> Iterator[NDArray[np.uint8]]:
        """Train an index of lists and of residuals' codes, and return the codes of all vectors, block by block.

        Raises:
            UsageError: there are too few vectors.
        """
        self.settle(index.cp)
        self.settle(index.pq.cp)
        with trained_on_gpus(index):
            train(index, vectors, self.training(index.nlist), progress)
        return encode_blocks(vectors, encoder_of(index), progress)

    def settle(self, clustering: Any) -> None:
        """Apply `Training.settle` with this sample and seed."""
        self.training().settle(clustering)


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
