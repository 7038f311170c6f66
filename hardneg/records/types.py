"""The records that datasets, indexes, miners, losses and stages exchange."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
"""The pattern of a repository id on the Hugging Face hub."""


class Document(NamedTuple):
    """One entry of a corpus; `contents` (the title, a space and the text) is encoded and indexed."""

    doc_id: str
    text: str
    title: str = ""

    @property
    def contents(self) -> str:
        """Title and text in one string, or only the text if there is no title."""
        return f"{self.title} {self.text}" if self.title else self.text


class Query(NamedTuple):
    """A query of a collection: its id and text."""

    query_id: str
    text: str


class Answers(NamedTuple):
    """The short answers to one query; any of them is correct."""

    query_id: str
    texts: tuple[str, ...]


class Judgement(NamedTuple):
    """The relevance of one document to one query; 0 and below mean judged and not relevant."""

    query_id: str
    doc_id: str
    relevance: int


class Collection(Protocol):
    """A loaded dataset: a corpus, and the queries and relevance judgements of each split.

    Records are read as streams. Every call of a method starts a new pass over the source.
    """

    def documents(self) -> Iterator[Document]:
        """Yield all documents; their order defines the row numbers of the corpus."""

    def splits(self) -> Sequence[str]:
        """Return the splits that have queries, such as `train`, `dev`, `test`."""

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the queries of one split."""

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield the relevance judgements of one split."""

    def notes(self) -> Sequence[str]:
        """Return one line for each kind of omitted record, with the count; complete only after all records are read."""


class Lookup(NamedTuple):
    """The result of looking up a source. there: bytes on this machine. ahead: bytes to download. note: a remark."""

    there: int = 0
    ahead: int = 0
    note: str = ""


@runtime_checkable
class HasAnswers(Protocol):
    """A collection with answers to its queries, as in question answering."""

    def answers(self, split: str) -> Iterator[Answers]:
        """Yield the answers to the queries of one split; queries without any may be omitted."""


@runtime_checkable
class HasWithheld(Protocol):
    """A collection with judgements that are withheld from training and used for evaluation."""

    def withheld(self) -> Iterator[Judgement]:
        """Yield the withheld judgements. They belong to no split, but their queries do."""


Side = Literal["document", "query"]
StoredPrecision = Literal["float32", "int8", "binary"]
"""The precision of stored vectors: 32, 8 or 1 bits per dimension."""


class Membership(NamedTuple):
    """The group of a document or a query, such as its topic."""

    member_id: str
    group: str


@runtime_checkable
class HasGroups(Protocol):
    """A collection with groups of similar documents and queries, such as topics."""

    def groups(self, side: Side) -> Iterator[Membership]:
        """Yield the group of each document, or of each query of any split; ids without a group are omitted."""


@dataclass(frozen=True, slots=True)
class PluginSetting:
    """A plugin chosen in a recipe or a command, with its options."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hits:
    """The best k documents of Q queries.

    rows: int64 [Q, k], row numbers in the index, best first, ties in ascending row order; -1 pads short lists.
    scores: float32 [Q, k], descending; -inf where rows is -1.
    """

    rows: "NDArray[np.int64]"
    scores: "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class RankedList:
    """The ranked list of one query in one run, best first. scores: float32 [n], descending."""

    doc_ids: Sequence[str]
    scores: "NDArray[np.float32]"

    def without(self, doc_ids: Container[str]) -> "RankedList":
        """Return the list without the given documents."""
        rows = [row for row, doc_id in enumerate(self.doc_ids) if doc_id not in doc_ids]
        return RankedList([self.doc_ids[row] for row in rows], self.scores[rows])


SCORES = "scores"
"""The label of a list in `Candidates.hits`; filters use its scores instead of the scores in the first list."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The input of a miner for one query.

    positives: every document judged relevant to the query in any split.
    duplicates: documents with the same contents as a positive, except the positives themselves.
    hits: ranked lists by run label; negatives are selected from the first list.
    doc_ids: the ids of the whole corpus by row; indexing is cheap, copying is not.
    """

    query_id: str
    positives: Sequence[str]
    hits: Mapping[str, RankedList]
    doc_ids: Sequence[str]
    duplicates: frozenset[str] = frozenset()

    @property
    def ranking(self) -> RankedList:
        """The first list in `hits`, from which negatives are selected; an empty list if there is none."""
        import numpy as np

        return next(iter(self.hits.values()), None) or RankedList((), np.empty(0, np.float32))

    @property
    def listed(self) -> list[str]:
        """The ids of the documents in all lists, each once, in the order of the lists."""
        return list(dict.fromkeys(doc_id for ranked in self.hits.values() for doc_id in ranked.doc_ids))


@dataclass(frozen=True, slots=True)
class Drops:
    """The n dropped documents among the first `candidates` documents of a query's list, with ranks and reasons.

    ranks: int32 [n], counted from 1. reasons: `positive`, `duplicate`, `score`, ... scores: float32 [n], the deciding
    scores, nan if none. chosen: int32 [k], the ranks of the query's k negatives, 0 for negatives not in the list.
    """

    candidates: int
    doc_ids: Sequence[str]
    ranks: "NDArray[np.int32]"
    reasons: Sequence[str]
    scores: "NDArray[np.float32]"
    chosen: "NDArray[np.int32]"


@dataclass(frozen=True, slots=True)
class Negatives:
    """The negatives of one query.

    scores: float32 [n], the negatives' scores in the run, nan if unknown. dropped: counts of dropped candidates by
    reason. drops: the dropped candidates, if reported. noted: facts about the query, such as `no scored positive`.
    """

    query_id: str
    positives: Sequence[str]
    negatives: Sequence[str]
    scores: "NDArray[np.float32]"
    dropped: Mapping[str, int] = field(default_factory=dict)
    drops: Drops | None = None
    noted: Sequence[str] = ()


class Written(NamedTuple):
    """The queries written from one document, possibly none.

    document: the document to use in training, without the text that became a query.
    """

    queries: Sequence[str]
    document: Document


@dataclass(frozen=True, slots=True)
class ScoreBatch:
    """The input of a loss: B queries against the M documents of a batch.

    scores: float [B, M], the model's own scores.
    positive: bool [B, M], true for documents drawn as positives of the row's query (at least one per row).
    own: bool [B, M], true for documents mined as negatives for the row's query.
    valid: bool [B, M], false for padding and for documents that must not count as negatives of the row: other known
        positives of its query, and duplicates of positives. A row's own positive is valid.
    ranks: int64 [B, M] or None, the document's rank in the list it was retrieved from, counted from 1; 0 if unknown.
    teacher: float [B, M] or None, a teacher's scores, nan if unknown.
    weights: float [B] or None, the weight of each row.
    guide: float [B, M] or None, the scores of another model, the guide; guide_query_query [B, B] and
        guide_document_document [M, M] are its scores between queries and between the columns' documents.
    query_query: float [B, B], document_document: float [M, M], or None, the model's own scores between queries and
        between the columns' documents; -inf where a column must not count as a negative of a row, such as a query for
        itself, or documents of the same query for each other.
    """

    scores: "Tensor"
    positive: "Tensor"
    own: "Tensor"
    valid: "Tensor"
    ranks: "Tensor | None" = None
    teacher: "Tensor | None" = None
    weights: "Tensor | None" = None
    guide: "Tensor | None" = None
    guide_query_query: "Tensor | None" = None
    guide_document_document: "Tensor | None" = None
    query_query: "Tensor | None" = None
    document_document: "Tensor | None" = None


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The input of a regularizer: the encoded texts of a batch, with gradients.

    queries: float [B, ...], documents: float [D, ...], each document once, in the encoder's own form (for term weights,
    [B, V] and [D, V]).
    counts: int64 [D], the number of columns that each document has in the score matrix.
    done: the completed fraction of the training steps, in [0, 1).
    """

    queries: "Tensor"
    documents: "Tensor"
    counts: "Tensor"
    done: float
