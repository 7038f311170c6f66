"""Protocols of plugins. A plugin is a frozen dataclass; its fields are its options.

Every plugin class has `version: ClassVar[int]`, increased whenever the same options and inputs give a different result.
Plugins need not import or inherit from these protocols, which are for type checkers and readers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from hardneg.records import Candidates, Collection, Document, Hits, Lookup, Negatives, ScoreBatch, Written
from hardneg.runtime import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import CrossEncoder
    from torch import Tensor

    from hardneg.records import Encoded


class NegativeMiner(Protocol):
    """A miner, which selects negatives from ranked lists (`hardneg.miners`).

    A miner that compares candidates with the scores of positives sets `compares: ClassVar[bool] = True`; in a refresh,
    positives that the search missed are then appended to the lists.
    """

    version: ClassVar[int]

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Return one `Negatives` for each `Candidates`, in the same order; no positive may be among its `negatives`.

        Random draws depend only on (seed, query_id).
        """


class QueryWriter(Protocol):
    """A writer of synthetic queries for documents (`hardneg.writers`)."""

    version: ClassVar[int]

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return one `Written` for each document, in the same order, with up to `count` queries.

        Random draws depend only on the seed and the document.
        """


@runtime_checkable
class RunJoiner(Protocol):
    """A miner that selects from several runs and can reject unsuitable ones."""

    def problems(self, runs: Sequence[str]) -> Iterator[str]:
        """Yield one message per problem, given the labels of the runs; called before any stage starts."""


class Loss(Protocol):
    """A pure function of a score matrix and masks (`hardneg.losses`).

    A loss may require optional parts of a `ScoreBatch` (`needs: ClassVar[tuple[str, ...]] = ("ranks",)`, or a
    property), one similarity (`similarity = "cosine"`), or the number of outputs of a reranker's head (`outputs = 2`).
    Recipes that do not meet these requirements are rejected before any stage starts.
    """

    version: ClassVar[int]

    def __call__(self, batch: ScoreBatch) -> "Tensor":
        """Return a finite scalar for scores of any size; zero with zero gradient if there is nothing to learn."""


class Searcher(Protocol):
    """An index that is open for search."""

    def search(self, queries: "Sequence[str] | Encoded", k: int) -> Hits:
        """Return the best k documents of each query; queries are strings for a lexical index, else encoded queries.

        A k larger than the corpus is allowed; short lists are padded with row -1 and score -inf.
        """


@runtime_checkable
class StoredSearcher(Searcher, Protocol):
    """An open index that also returns encoded documents, in the form that the encoder produces.

    An index with large documents may declare `at_once: int`, the number of documents to request at a time.
    """

    def encoded(self, rows: "NDArray[np.int64]") -> "Encoded":
        """Return the decoded documents at the given rows, int64 [n]. They score as in the index, up to rounding."""


@runtime_checkable
class DenseSearcher(Searcher, Protocol):
    """An open index that also returns its vectors."""

    def vectors(self, rows: "NDArray[np.int64]") -> "NDArray[np.float32]":
        """Return the vectors at the given rows, int64 [n], as float32 [n, d], decoded and rotated back.

        The inner product of a query and a returned vector equals the index score up to rounding.
        """


@runtime_checkable
class ProductSearcher(DenseSearcher, Protocol):
    """An open index with product quantization: a vector is M concatenated centroids, rotated back if necessary."""

    def codes(self, rows: "NDArray[np.int64]") -> "NDArray[np.uint8]":
        """Return the codes of the given rows, int64 [n], as uint8 [n, M]."""

    def centroids(self) -> "NDArray[np.float32]":
        """Return the centroids, float32 [M, C, d / M], with C = 256 for 8-bit codes."""

    def rotation(self) -> "NDArray[np.float32] | None":
        """Return the rotation R, float32 [d, d], or None if there is none; the codes quantize the M parts of R x."""

    def write_with_centroids(self, out: Path, centroids: "NDArray[np.float32]") -> None:
        """Write an index with the same type and codes, but new centroids, float32 [M, C, d / M], to folder `out`."""


RowLookup = Callable[[Sequence[str]], "NDArray[np.int64]"]
"""A function that returns the row numbers of n document ids, int64 [n]; -1 for unknown ids."""


class IndexBackend(Protocol):
    """An index backend (`hardneg.indexes`).

    `input` is the data to build the index from: `"texts"`, or encoded texts, which are `"vectors"` (one per document),
    `"weights"` of terms, or `"token-vectors"`.
    """

    version: ClassVar[int]
    input: ClassVar[str]

    def build(self, source: Any, path: Path, progress: Progress) -> int:
        """Build the index in folder `path` and return the number of documents.

        source: for `"texts"`, pairs (doc_id, contents) in row order, read once; else the folder of a stage `encode`.
        """

    def open(self, path: Path, rows: RowLookup) -> Searcher:
        """Open the index in folder `path` for search.

        rows: maps document ids to row numbers, for an index that stores only document ids.
        """


@runtime_checkable
class EstimatedBackend(Protocol):
    """A backend that can estimate the index size for a plan."""

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the index size in bytes, without ids, for `documents` documents and `vectors` vectors in total."""


class Reranker(Protocol):
    """A reranker, which scores documents for a query (`hardneg.rerankers`)."""

    version: ClassVar[int]

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores, one per document in order, for each request (query text, document texts)."""


@runtime_checkable
class TrainableReranker(Reranker, Protocol):
    """A reranker based on a `sentence_transformers.CrossEncoder` with one or two outputs.

    The score of a pair is the network's `activation_fn` of the single output, or of the second output minus the first.
    A reranker that knows the number of outputs without loading the network may declare it as `head`.
    """

    def load(self, folder: Path | None) -> "CrossEncoder":
        """Return the network that the options specify or, given `folder`, the one saved there, with the same options.

        Repeated calls return the same weights. The network's `max_seq_length` is the maximum number of tokens per pair.
        """

    def fingerprint(self) -> str:
        """Return a digest of what `load(None)` reads; cache keys use it instead of the `LOCATION_OPTIONS`."""


LOCATION_OPTIONS = ("source", "revision")


class DatasetLoader(Protocol):
    """A dataset loader, which reads a collection (`hardneg.datasets`)."""

    version: ClassVar[int]

    def load(self) -> Collection:
        """Return the collection, open for streaming."""

    def fingerprint(self) -> str:
        """Return a digest of the source, which changes whenever a byte that is read may have changed."""

    def size_hint(self) -> int:
        """Return the approximate number of documents without reading every document; 0 if unknown."""


@runtime_checkable
class LooksUp(Protocol):
    """A dataset loader that can check before a run whether its files are available, and how large they are."""

    def look_up(self) -> Lookup:
        """Return the size in bytes of local and remote files, without downloads. Raises an error if one is missing."""


@runtime_checkable
class HintsQueries(Protocol):
    """A dataset loader that can estimate the number of queries for a plan."""

    def query_hint(self) -> Mapping[str, int]:
        """Return the approximate number of queries per split, without reading the corpus; splits may be omitted."""


@runtime_checkable
class SessionWriter(Protocol):
    """A query writer that opens a resource once for all documents, such as a neural network or server connections."""

    def writing(self, counts: MutableMapping[str, float], device: str | None) -> AbstractContextManager[QueryWriter]:
        """Return a context manager that yields the open writer and then adds usage, such as tokens, to `counts`."""


class FilterTexts(Protocol):
    """Access to the texts that a filter may read in addition to ranked lists."""

    def queries(self, query_ids: Sequence[str]) -> Sequence[str]:
        """Return the texts of the queries with these ids, in order."""

    def documents(self, doc_ids: Sequence[str]) -> Sequence[Document]:
        """Return the documents with these ids, in order. Raises DataError if one is not in the corpus."""

    def answers(self, match: Literal["string", "regex"]) -> "AnswerFinder":
        """Return a finder of the queries' short answers, as in `AnswerFinder`. Raises DataError if there are none."""


class AnswerFinder(Protocol):
    """A finder of the queries' short answers in documents, matched as words or as regular expressions."""

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> "NDArray[np.bool_]":
        """Return whether each document has an answer to its query: bool [Q, k], False beyond the end of a list."""


class NegativeFilter(Protocol):
    """A filter, which runs before mining and drops candidates that are not true negatives (`hardneg.filters`).

    A filter that requires answers declares `needs: ClassVar[tuple[str, ...]] = ("answers",)`; a filter that compares
    candidates with the scores of positives sets `compares`, like a miner.
    """

    version: ClassVar[int]

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, for each `Candidates` in order, a reason for each document to drop, by document id.

        The lists include positives for comparison; reasons for positives are ignored. A document that a miner drew from
        the corpus is in a separate list, with the score nan.
        """


@runtime_checkable
class ReadsContent(Protocol):
    """A filter with options that are file paths (`path_options`); cache keys use the files' digest, not the paths."""

    path_options: ClassVar[tuple[str, ...]]

    def fingerprint(self) -> str:
        """Return a digest of the contents of the files that `path_options` name."""
