"""The protocols of plugins. A plugin is a frozen dataclass with one verb; its fields are its options.

Every plugin class has `version: ClassVar[int]`, raised whenever the same options and inputs give another result.
No plugin needs to import or inherit from these protocols: they are for type checkers and readers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from hardneg.records import Candidates, Collection, Document, EncodedBatch, Hits, Lookup, Negatives, ScoreBatch, Written
from hardneg.runtime import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import CrossEncoder
    from torch import Tensor

    from hardneg.records import Encoded


class NegativeMiner(Protocol):
    """A miner, which selects negatives from ranked lists (`hardneg.miners`).

    One that compares candidates with the scores of positives sets `compares: ClassVar[bool] = True`: in a refresh,
    positives that the search missed are then appended to its lists.
    """

    version: ClassVar[int]

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Return one `Negatives` for each `Candidates`, in the same order; never a positive.

        A draw depends on (seed, query_id) only.
        """


class QueryWriter(Protocol):
    """A writer of queries that documents answer (`hardneg.writers`)."""

    version: ClassVar[int]

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return one `Written` for each document, in the same order, with up to `count` queries.

        A draw depends on (seed, doc_id) only.
        """


@runtime_checkable
class RunJoiner(Protocol):
    """A miner that selects from several runs, and may refuse those of a stage."""

    def problems(self, runs: Sequence[str]) -> Iterator[str]:
        """Return the problems of runs with these labels, one line each, before anything runs."""


class Loss(Protocol):
    """A pure function of a score matrix and masks (`hardneg.losses`).

    It may declare what it requires, and recipes that lack it are refused before anything runs: optional parts of a
    `ScoreBatch` (`needs: ClassVar[tuple[str, ...]] = ("ranks",)`, or a property), one similarity (`similarity =
    "cosine"`), a number of outputs of a reranker's head (`outputs = 2`).
    """

    version: ClassVar[int]

    def __call__(self, batch: ScoreBatch) -> "Tensor":
        """Return a scalar, finite for scores of any size; zero with zero gradient if there is nothing to learn."""


class Searcher(Protocol):
    """An opened index."""

    def search(self, queries: "Sequence[str] | Encoded", k: int) -> Hits:
        """Return the best k documents of each query: texts for a lexical index, else encoded by the index's model.

        A k larger than the corpus is allowed; short lists are padded with -1.
        """


@runtime_checkable
class StoredSearcher(Searcher, Protocol):
    """An opened index that returns its documents in the form of its encoder.

    If its documents may be large, `at_once: int` is the number of documents to request at a time.
    """

    def encoded(self, rows: "NDArray[np.int64]") -> "Encoded":
        """Return rows int64 [n] of the index, decoded; their scores equal the index's own up to rounding."""


@runtime_checkable
class DenseSearcher(Searcher, Protocol):
    """An opened index over vectors."""

    def vectors(self, rows: "NDArray[np.int64]") -> "NDArray[np.float32]":
        """Return the vectors of rows int64 [n], float32 [n, d], decoded and rotated back.

        A query's inner product with such a vector equals the index's own score up to rounding.
        """


@runtime_checkable
class ProductSearcher(DenseSearcher, Protocol):
    """An opened index whose vectors concatenate M centroids, times the transposed rotation if there is one."""

    def codes(self, rows: "NDArray[np.int64]") -> "NDArray[np.uint8]":
        """Return the codes of rows int64 [n]: uint8 [n, M]."""

    def centroids(self) -> "NDArray[np.float32]":
        """Return float32 [M, C, d / M], with C = 256 for codes of 8 bits."""

    def rotation(self) -> "NDArray[np.float32] | None":
        """Return R, float32 [d, d], of R x, the vector that is cut into M parts; None: no rotation."""

    def write_with_centroids(self, out: Path, centroids: "NDArray[np.float32]") -> None:
        """Write an index of the same type and codes in folder `out`, with other centroids, float32 [M, C, d / M]."""


RowLookup = Callable[[Sequence[str]], "NDArray[np.int64]"]
"""Returns the row numbers of document ids, int64 [n]; -1 for unknown ones."""


class IndexBackend(Protocol):
    """An index backend (`hardneg.indexes`).

    `input`: the data it is built from: `"texts"`, or encoded texts: `"vectors"`, one per document,
    `"weights"` of terms, or `"token-vectors"`.
    """

    version: ClassVar[int]
    input: ClassVar[str]

    def build(self, source: Any, path: Path, progress: Progress) -> int:
        """Build the index in folder `path` and return the number of its documents.

        source: for `"texts"` pairs (doc_id, contents) in row order, read once; else the path of the folder of an
            encode stage.
        """

    def open(self, path: Path, rows: RowLookup) -> Searcher:
        """Open the index in folder `path` for search.

        rows: for an index that has documents by id only.
        """


@runtime_checkable
class EstimatedBackend(Protocol):
    """A backend that estimates the size of its index, for a plan."""

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the bytes for `documents` with `vectors` in all, of `dimension` numbers each, without ids."""


class Reranker(Protocol):
    """A reranker, which scores the documents of a query (`hardneg.rerankers`)."""

    version: ClassVar[int]

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores of each request (query text, document texts), one per document, in order."""


@runtime_checkable
class TrainableReranker(Reranker, Protocol):
    """A reranker over a network that scores pairs: a `sentence_transformers.CrossEncoder` of one or two outputs.

    The score of a pair is the network's `activation_fn` of its one output, or of the second less the first. One that
    knows its number of outputs without loading may declare it as `head`.
    """

    def load(self, folder: Path | None) -> "CrossEncoder":
        """Return the network of the options, or the one saved in `folder`, with these options.

        The same weights at each call; `max_seq_length` is how many tokens of a pair are read.
        """

    def fingerprint(self) -> str:
        """Return a digest of the content that `load(None)` reads; keys hold it in place of `LOCATION_OPTIONS`."""


LOCATION_OPTIONS = ("source", "revision")


class DatasetLoader(Protocol):
    """A dataset loader, which reads a collection (`hardneg.datasets`)."""

    version: ClassVar[int]

    def load(self) -> Collection:
        """Return the collection, opened for streaming."""

    def fingerprint(self) -> str:
        """Return a digest of the source's content; it changes whenever any byte that is read may have changed."""

    def size_hint(self) -> int:
        """Return the approximate number of documents without reading them all; 0 if unknown."""


@runtime_checkable
class LooksUp(Protocol):
    """A loader that looks up its files before a run."""

    def look_up(self) -> Lookup:
        """Return the files it will read, local or to download; none is downloaded. Raises if one is unavailable."""


@runtime_checkable
class HintsQueries(Protocol):
    """A loader that estimates its queries, for a plan."""

    def query_hint(self) -> Mapping[str, int]:
        """Return about how many queries each split has, without reading the corpus; splits may be left out."""


@runtime_checkable
class SessionWriter(Protocol):
    """A writer that opens something once for all documents, such as a network or connections to a server."""

    def writing(self, counts: MutableMapping[str, float], device: str | None) -> AbstractContextManager[QueryWriter]:
        """Return the opened writer; when the block ends, it adds its usage, such as tokens, to `counts`."""


class FilterTexts(Protocol):
    """The texts that a filter may read in addition to ranked lists."""

    def queries(self, query_ids: Sequence[str]) -> Sequence[str]:
        """Return the text of each query."""

    def documents(self, doc_ids: Sequence[str]) -> Sequence[Document]:
        """Return documents of the corpus."""

    def answers(self, match: Literal["string", "regex"]) -> "AnswerFinder":
        """Return the matcher of the queries' short answers. Raises DataError if there are none."""


class AnswerFinder(Protocol):
    """A matcher of short answers in documents, as words or by regular expressions."""

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> "NDArray[np.bool_]":
        """Return whether each document of each query's list has an answer: bool [Q, k], k the length of the longest."""


class NegativeFilter(Protocol):
    """A filter, which drops candidates that are not negatives before a miner selects (`hardneg.filters`).

    One that requires answers declares `needs: ClassVar[tuple[str, ...]] = ("answers",)`; one that compares candidates
    with the scores of positives sets `compares`, as a miner does.
    """

    version: ClassVar[int]

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield the reasons to drop documents, by id, for each `Candidates` in order; other documents stay.

        Positives are in the lists, for comparison; reasons against them are ignored. A document that a miner
        drew from the corpus is in a list of its own, with the score nan.
        """


@runtime_checkable
class ReadsContent(Protocol):
    """A filter whose `path_options` name files: keys hold a digest of their content instead."""

    path_options: ClassVar[tuple[str, ...]]

    def fingerprint(self) -> str:
        """Return a digest of the content."""


class Regularizer(Protocol):
    """A penalty on encoded texts of a form, such as `"weights"`, added to a loss (`hardneg.regularizers`)."""

    version: ClassVar[int]
    form: ClassVar[str]

    def __call__(self, batch: EncodedBatch) -> "Tensor":
        """Return a scalar, 0 or above; a document counts as often as it has columns."""
