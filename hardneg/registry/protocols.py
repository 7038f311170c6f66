"""The shapes a plugin may have. A plugin is a frozen dataclass with one verb; its fields are its options.

Every plugin class has `version: ClassVar[int]`, raised whenever the same options and inputs give another result.
No plugin needs to import or inherit from these protocols: they are for type checkers and readers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from hardneg.records.types import BuildCost, Candidates, Collection, EncodedBatch, Hits, Lookup, Negatives, ScoreBatch
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import CrossEncoder
    from torch import Tensor

    from hardneg.records.types import Encoded


class StageBlocks(Protocol):
    """The work of a stage as one process has opened it, cut into blocks that do not depend on each other.

    unit: what the items are that a block is made of, such as `passages`.
    """

    unit: ClassVar[str]

    @property
    def sizes(self) -> Sequence[int]:
        """How many items each block has, by its number; the same in every process and whenever the work is resumed."""

    def finished(self) -> set[int]:
        """The numbers of the blocks that are safely on disk."""

    def make(self, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Each of these blocks, ascending, with its number; writes no more than what an unfinished one goes on from."""

    def write(self, number: int, content: Any) -> None:
        """Puts a block that was made here or elsewhere safely on disk, and marks it as finished."""

    def finish(self) -> Mapping[str, Any]:
        """Puts the blocks together, when all are finished, and returns what the manifest tells."""


class NegativeMiner(Protocol):
    """Selects negatives from ranked lists (`hardneg.miners`).

    One that holds candidates against the scores of positives says `compares: ClassVar[bool] = True`: where negatives
    are mined again while a model trains, lists then have the positives that the search missed behind their end.
    """

    version: ClassVar[int]

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """One `Negatives` for each `Candidates`, in the same order; never a positive.

        A draw depends on (seed, query_id) only.
        """


@runtime_checkable
class RunJoiner(Protocol):
    """A miner that selects from several runs, and may not do with those that a stage gives it."""

    def problems(self, runs: Sequence[str]) -> Iterator[str]:
        """What is wrong with runs of these labels, one line each; asked before anything runs."""


class Loss(Protocol):
    """A pure function of a score matrix and masks (`hardneg.losses`).

    A loss that cannot do without an optional part of a `ScoreBatch` says so: `needs: ClassVar[tuple[str, ...]] =
    ("ranks",)`, or a property where that depends on its options. A recipe that names it in a stage whose batches lack
    the part is refused before anything runs. So does one that is made for the scores of one similarity: `similarity:
    ClassVar[str] = "cosine"`, and one that is made for rerankers with a head of so many outputs: `outputs:
    ClassVar[int] = 2`.
    """

    version: ClassVar[int]

    def __call__(self, batch: ScoreBatch) -> "Tensor":
        """A scalar that is finite for scores of any size; zero with zero gradient where there is nothing to learn."""


class Regularizer(Protocol):
    """A penalty on what texts are encoded into, added to a loss (`hardneg.regularizers`).

    form: what an encoder must make of texts for it, such as `"weights"`, those of terms; a recipe whose encoder makes
    something else is refused before anything runs.
    """

    version: ClassVar[int]
    form: ClassVar[str]

    def __call__(self, batch: EncodedBatch) -> "Tensor":
        """A scalar, 0 or above; a document counts as often as it has columns."""


class Searcher(Protocol):
    """An opened index."""

    def search(self, queries: "Sequence[str] | Encoded", k: int) -> Hits:
        """The best k documents of each query: texts for a lexical index, or as the index's own encoder gives them.

        A k larger than the corpus is allowed; what is missing is padded with -1.
        """


@runtime_checkable
class StoredSearcher(Searcher, Protocol):
    """An opened index that gives back what it holds of a document, in the form that its encoder has.

    Where its documents may be large it says as `at_once: int` how many are to be asked for at a time.
    """

    def encoded(self, rows: "NDArray[np.int64]") -> "Encoded":
        """What the index holds of rows int64 [n], decoded: a query's score with it is the index's own but for noise."""


@runtime_checkable
class DenseSearcher(Searcher, Protocol):
    """An opened index over vectors."""

    def vectors(self, rows: "NDArray[np.int64]") -> "NDArray[np.float32]":
        """The vectors of rows int64 [n] as the index holds them, float32 [n, d], decoded and rotated back.

        A query's inner product with such a vector is the index's own score but for float noise.
        """


@runtime_checkable
class ProductSearcher(DenseSearcher, Protocol):
    """An opened index of product-quantised vectors: M codes a vector, each the number of a centroid.

    The vector of a row is the M centroids of its codes in a line, times the transposed rotation where there is one.
    """

    def codes(self, rows: "NDArray[np.int64]") -> "NDArray[np.uint8]":
        """The codes of rows int64 [n]: uint8 [n, M]."""

    def centroids(self) -> "NDArray[np.float32]":
        """float32 [M, C, d / M], with C = 256 for codes of 8 bits."""

    def rotation(self) -> "NDArray[np.float32] | None":
        """float32 [d, d], what a vector x is multiplied with, R x, before it is cut into M parts; None: nothing."""

    def write_with_centroids(self, out: Path, centroids: "NDArray[np.float32]") -> None:
        """Writes an index of the same kind and codes in folder `out`, with other centroids, float32 [M, C, d / M]."""


RowLookup = Callable[[Sequence[str]], "NDArray[np.int64]"]
"""Gives the row numbers of document ids, int64 [n]; -1 for unknown ones."""


class IndexBackend(Protocol):
    """A kind of index (`hardneg.indexes`).

    `input` says what it is built from: `"texts"`, or what an encoder makes of them: `"vectors"`, one a document,
    `"weights"` of terms, or `"token-vectors"`.
    """

    version: ClassVar[int]
    input: ClassVar[str]

    def build(self, source: Any, path: Path, progress: Progress) -> int:
        """Builds the index in folder `path` and returns how many documents it holds.

        source: for `"texts"` pairs (doc_id, contents) in row order, read once; else the path of the folder that an
            encode stage wrote.
        """

    def open(self, path: Path, rows: RowLookup) -> Searcher:
        """The index in folder `path`, ready to search.

        rows: for an index that knows documents by id only.
        """


class IndexSize(NamedTuple):
    """What is in an index: documents with so many vectors in all, and with how many vectors a query is searched for."""

    documents: float
    vectors: float
    dimension: int
    query_vectors: float = 1


class SearchCost(NamedTuple):
    """What a query takes: multiplications and additions, codes that are looked up; bytes that are held in memory."""

    operations: float = 0
    codes: float = 0
    held: int = 0


@runtime_checkable
class EstimatedSearch(Protocol):
    """A kind of index that tells what a search in it takes, for a plan; what does not is taken to search exactly."""

    def search_cost(self, size: IndexSize) -> SearchCost:
        """For one query."""


@runtime_checkable
class EstimatedBackend(Protocol):
    """A kind of index that tells what it takes, for a plan."""

    def cost(self, documents: int, vectors: int, dimension: int) -> BuildCost:
        """For so many documents with so many vectors together, of so many numbers each."""


class Reranker(Protocol):
    """Scores the documents of one query (`hardneg.rerankers`)."""

    version: ClassVar[int]

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """For each (query text, document texts): one score a document, in the order given."""


@runtime_checkable
class TrainableReranker(Reranker, Protocol):
    """A reranker over a network that scores pairs: a `sentence_transformers.CrossEncoder` of one or two outputs.

    hardneg trains and saves that network, batches pairs for it across queries, and keeps the scores by content. The
    score of a pair is what the network's `activation_fn` makes of its one output, or of the second less the first.
    One that knows its number of outputs without loading may say it as `head`: a loss for another number is then refused
    before anything runs.
    """

    def load(self, folder: Path | None) -> "CrossEncoder":
        """The network as the options make it, or, with these options, as it was saved in `folder`.

        The same weights at each call; `max_seq_length` is how many tokens of a pair are read.
        """

    def fingerprint(self) -> str:
        """A digest of the content that `load(None)` reads; the options in `LOCATION_OPTIONS` only say where it is."""


LOCATION_OPTIONS = ("source", "revision")


class DatasetLoader(Protocol):
    """Reads a collection (`hardneg.datasets`)."""

    version: ClassVar[int]

    def load(self) -> Collection:
        """The collection, opened for streaming."""

    def fingerprint(self) -> str:
        """A digest of the source's content: another one whenever any byte that is read may differ."""

    def size_hint(self) -> int:
        """About how many documents there are, without reading them all; 0 where that cannot be told."""


@runtime_checkable
class LooksUp(Protocol):
    """What a loader may tell besides, before a run."""

    def look_up(self) -> Lookup:
        """The files it will read: which are there, which come; none is fetched. Raises where one cannot be had."""


@runtime_checkable
class HintsQueries(Protocol):
    """What a loader may tell besides, for a plan's estimates."""

    def query_hint(self) -> Mapping[str, int]:
        """About how many queries each split has, without reading the corpus; splits may be left out."""
