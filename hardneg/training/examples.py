"""Training examples, sampled by seed, epoch and query, with teachers, guides and batch orders."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.arrays import ranges
from hardneg.formats.corpus import Corpus, set_aside
from hardneg.formats.segments import Segments
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import RankedList, TrainingError, UsageError
from hardneg.runtime import generator
from hardneg.store import digest, file_digest, replacing
from hardneg.training.batch_orders import BatchOrder, Rows, Shuffled
from hardneg.training.options import LearningOptions

Scores = NDArray[np.float32]
_PLAIN = LearningOptions()
_KEYS, _SCORES, _QUERIES = "keys.i8", "scores.f4", 1024


@dataclass(frozen=True, eq=False)
class Teacher:
    """Teacher scores of query-document pairs.

    documents: size of the corpus. keys: int64 [E], ascending; a key is the position of a training query times
    `documents`, plus the row of a document. values: float32 [E], scores. name: digest of keys and values.
    """

    documents: int
    keys: Rows
    values: Scores
    name: str = ""

    @classmethod
    def open(cls, folder: Path, documents: int) -> "Teacher":
        """Open the files written by `write_teacher`."""
        keys, values = folder / _KEYS, folder / _SCORES
        name = digest([file_digest(keys), file_digest(values)])
        if not keys.stat().st_size:
            return cls(documents, _none(), np.empty(0, np.float32), name)
        return cls(documents, np.memmap(keys, "<i8", "r"), np.memmap(values, "<f4", "r"), name)

    def scores(self, queries: Rows, documents: Rows) -> Scores:
        """Return the scores of each query's documents, float32 [B, n], nan if missing.

        queries: int64 [B], positions among the training queries. documents: int64 [B, n], rows of the corpus.
        """
        wanted = queries[:, None] * self.documents + documents
        if not len(self.keys):
            return np.full(wanted.shape, np.nan, np.float32)
        position = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[position] == wanted, self.values[position], np.float32(np.nan))


def write_teacher(folder: Path, corpus: Corpus, lists: Iterable[RankedList]) -> None:
    """Write teacher scores to the files that `Teacher.open` reads, skipping documents that are not in the corpus.

    lists: one ranked list per training query, in query order; they are read block by block.
    """
    waiting, start = iter(lists), 0
    with replacing(folder / _KEYS) as keys, replacing(folder / _SCORES) as values:
        while block := list(islice(waiting, _QUERIES)):
            position = np.repeat(np.arange(start, start + len(block)), [len(ranked.doc_ids) for ranked in block])
            rows = corpus.rows([doc_id for ranked in block for doc_id in ranked.doc_ids])
            known, key = rows >= 0, position * len(corpus) + rows
            order = np.flatnonzero(known)[key[known].argsort()]
            keys.write(key[order].astype("<i8").tobytes())
            values.write(np.concatenate([ranked.scores for ranked in block])[order].astype("<f4").tobytes())
            start += len(block)


@dataclass(frozen=True, eq=False)
class Guide:
    """The vectors of a fixed guide model, which detects false negatives in a batch.

    documents: the guide's index of the corpus. queries: vectors of the training queries, float32 [Q, d], memory-mapped.
    name: digest of the index and of the model that encoded the queries.

    Source: Solatorio, GISTEmbed: Guided In-sample Selection of Training Negatives for Text Embedding Fine-tuning
    (2024), section 3; there, the guide encodes each batch during training.
    """

    documents: StoredSearcher | DenseSearcher
    queries: Scores
    name: str = ""

    def of(self, queries: Rows, rows: Rows) -> tuple[Scores, Scores]:
        """Return the vectors of training `queries`, int64 [B], and corpus `rows`, int64 [D]: float32 [B, d] and [D, d].

        Raises:
            UsageError: the index does not have one vector per document, or has another dimension than the queries.
        """
        from hardneg.indexes.candidate_scoring import encoded_rows

        stored = encoded_rows(self.documents, rows)
        if not isinstance(stored, np.ndarray) or stored.shape[1] != self.queries.shape[1]:
            raise UsageError("guide: its index does not match its model's vectors; use another encode stage")
        return self.queries[queries], stored


@dataclass(frozen=True, eq=False)
class QueryOrder:
    """A batch order with its inputs: the groups of the training queries, int64 [Q, ...], and the batch size."""

    plugin: BatchOrder
    groups: Rows
    size: int

    def of(self, chosen: Rows, epoch: int, seed: int) -> Rows:
        """Return an epoch's queries in training order, int64 [n]; chosen: int64 [C], positions of usable queries."""
        return self.plugin.order(self.groups, chosen, self.size, epoch=epoch, seed=seed)

    @property
    def name(self) -> str:
        plugin: Any = self.plugin
        content = hashlib.blake2b(np.ascontiguousarray(self.groups, "<i8").data, digest_size=16).hexdigest()
        named = [type(plugin).__qualname__, plugin.version, asdict(plugin)]
        return digest([*named, self.size, list(self.groups.shape), content])


class NegativeLists(Protocol):
    """Protocol for files of negatives, such as `hardneg.formats.negatives.NegativesFile`, with one row per query."""

    @property
    def query_ids(self) -> list[str]:
        """The query id of each row."""

    @property
    def counts(self) -> Rows:
        """The number of negatives in each row, int64 [rows]."""

    def pick(self, row: int, positions: Rows) -> list[str]:
        """Return the document ids of a row's negatives at `positions`, int64 [n]."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training queries with their positives and negatives.

    query_ids, texts: the training queries. positives: known relevant documents by query id; one is used per example,
    and neither positives nor their duplicates serve as negatives. negatives: mined negatives, if any. segments: how to
    split documents into windows, the best of which is scored; None truncates documents. teacher, guide: teacher scores
    and guide vectors, if any. order: batch order; None shuffles the queries.
    """

    corpus: Corpus
    query_ids: Sequence[str]
    texts: Sequence[str]
    positives: Mapping[str, Sequence[str]]
    negatives: NegativeLists | None = None
    segments: Segments | None = None
    teacher: Teacher | None = None
    order: QueryOrder | None = None
    guide: Guide | None = None

    def only(self, rows: Sequence[int]) -> "TrainingData":
        """Return a copy of this data with only the queries at positions `rows`, in that order."""
        query_ids, texts = ([column[row] for row in rows] for column in (self.query_ids, self.texts))
        return replace(self, query_ids=query_ids, texts=texts)

    def examples(self, options: LearningOptions) -> "Examples":
        """Return an endless sequence of examples, drawn from these queries as `options` specify."""
        return Examples(self, options.negatives_per_query, options.seed, options)


def _none() -> Rows:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SampledBatch:
    """A batch of B queries and the documents drawn for them, as rows of the corpus.

    documents: int64 [B, 1 + n], each query's positive, then its negatives.
    known: int64 [K], documents that must not be negatives, such as positives; owner: int64 [K], the batch row of each.
    teacher: float32 [B, 1 + n], teacher scores of the documents, nan if missing.
    queries: int64 [B], positions in the training data.
    """

    query_ids: list[str]
    texts: list[str]
    documents: Rows
    known: Rows
    owner: Rows
    teacher: Scores | None = None
    queries: Rows = field(default_factory=_none)

    def at(self, rows: Rows) -> "SampledBatch":
        """Return the batch with its rows permuted by `rows`, int64 [B]; the new `owner` may not be ascending."""
        ids, texts = [self.query_ids[row] for row in rows.tolist()], [self.texts[row] for row in rows.tolist()]
        teacher, owner = None if self.teacher is None else self.teacher[rows], np.argsort(rows)[self.owner]
        return SampledBatch(ids, texts, self.documents[rows], self.known, owner, teacher, self.queries[rows])


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A batch of B queries with their known positives.

    queries: int64 [B], positions in the training data.
    known: int64 [K], rows of the corpus; owner: int64 [K], ascending, the batch row of each.
    aside, aside_owner: the same for other excluded documents: copies of the query, positives of queries with its text.
    """

    query_ids: list[str]
    texts: list[str]
    queries: Rows
    known: Rows
    owner: Rows
    aside: Rows = field(default_factory=_none)
    aside_owner: Rows = field(default_factory=_none)


class Examples:
    """An endless sequence of training examples, epoch after epoch.

    Each query's positive and n (`negatives_per_query`) negatives are redrawn in every epoch, as the options `drawing`
    specify. Negatives are drawn without replacement, unless there are fewer than n.

    skipped: numbers of skipped queries and positives, by reason. queries: int64 [C], positions of the usable queries in
    the training data. Raises TrainingError if no query is usable.
    """

    def __init__(
        self, data: TrainingData, negatives_per_query: int, seed: int, drawing: LearningOptions = _PLAIN
    ) -> None:
        self._data, self._width, self._seed, self._drawing = data, negatives_per_query, seed, drawing
        self._orders: dict[int, tuple[Rows, Rows]] = {}
        positives = [data.positives.get(query_id, ()) for query_id in data.query_ids]
        rows = data.corpus.rows([doc_id for doc_ids in positives for doc_id in doc_ids])
        of, known = np.repeat(np.arange(len(positives)), [len(doc_ids) for doc_ids in positives]), rows >= 0
        counts = np.bincount(of[known], minlength=len(positives))
        # rows of all positives, int64 [P], and the first one of each query, int64 [Q + 1]
        self._positives, self._starts = rows[known], np.concatenate([[0], np.cumsum(counts)])
        self._aside, _ = set_aside(data.corpus, data.query_ids, data.texts, data.positives)
        has_positives = np.diff(self._starts) > 0
        # row in the file of negatives and number of negatives of each query, int64 [Q]; -1 and 0 if it has none
        self._lists = np.full(len(data.query_ids), -1, np.int64)
        self._counts = np.zeros_like(self._lists)
        if negatives_per_query and data.negatives is not None:
            row_of = {query_id: row for row, query_id in enumerate(data.negatives.query_ids)}
            self._lists[:] = [row_of.get(query_id, -1) for query_id in data.query_ids]
            self._counts = np.where(self._lists >= 0, np.append(data.negatives.counts, 0)[self._lists], 0)
        has_negatives = self._counts >= min(1, negatives_per_query)
        skipped = {
            "queries without positives": int((~has_positives).sum()),
            "queries without negatives": int((has_positives & ~has_negatives).sum()),
            "positives missing from the corpus": int((~known).sum()),
        }
        self.skipped = {reason: count for reason, count in skipped.items() if count}
        self.queries = np.flatnonzero(has_positives & has_negatives)
        if not len(self.queries):
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            raise TrainingError(f"no query can be used for training ({reasons or 'there are no queries'})")
        self._iterated = drawing.iterate_negatives and negatives_per_query > 0
        turns = self._counts[self.queries] // max(1, negatives_per_query)
        self._turns = np.maximum(turns, 1) if self._iterated else np.ones_like(turns)
        self._length = int(self._turns.sum()) if data.order is None else len(self._order(0)[0])

    def __len__(self) -> int:
        return self._length

    def digest(self) -> str:
        """Return a digest of queries, positives, numbers of negatives, segments, teacher, batch order and guide."""
        ids = [self._data.query_ids[query] for query in self.queries.tolist()]
        named: list[object] = [ids, self._positives.tolist(), self._counts.tolist(), len(self._data.corpus)]
        segments, sources = self._data.segments, (self._data.teacher, self._data.order, self._data.guide)
        named += [] if segments is None else [asdict(segments)]
        return digest([*named, *(other.name for other in sources if other is not None)])

    def draw(self, start: int, count: int) -> SampledBatch:
        """Return `count` examples from position `start` on. Raises DataError if a negative is not in the corpus."""
        epochs, queries, turns = self._at(start, count)
        batch = self.of(queries)
        draws = list(map(self._draw, queries.tolist(), epochs.tolist(), turns.tolist()))
        drawn_ids = [doc_id for _, doc_ids in draws for doc_id in doc_ids]
        negatives = self._data.corpus.known_rows(drawn_ids, "negative", "mine negatives from this corpus")
        positives = np.array([positive for positive, _ in draws], np.int64)
        documents = np.column_stack([positives, negatives.reshape(count, self._width)])
        teacher = None if self._data.teacher is None else self._data.teacher.scores(queries, documents)
        known, owner = np.append(batch.known, batch.aside), np.append(batch.owner, batch.aside_owner)
        return SampledBatch(batch.query_ids, batch.texts, documents, known, owner, teacher, queries)

    def ask(self, start: int, count: int) -> QueryRows:
        """Return the queries of `count` examples from position `start` on, with their known positives."""
        return self.of(self._at(start, count)[1])

    def of(self, queries: Rows) -> QueryRows:
        """Return the texts and known positives of `queries`, int64 [B], which are positions in the training data."""
        positions, owner = ranges(self._starts[queries], self._starts[queries + 1])
        chosen = queries.tolist()
        query_ids, texts = ([column[query] for query in chosen] for column in (self._data.query_ids, self._data.texts))
        aside = [self._aside.get(query, _none()) for query in chosen]
        aside_owner = np.repeat(np.arange(len(chosen)), [len(rows) for rows in aside])
        others = np.concatenate([*aside, _none()])
        return QueryRows(query_ids, texts, queries, self._positives[positions], owner, others, aside_owner)

    def _at(self, start: int, count: int) -> tuple[Rows, Rows, Rows]:
        """Return the epoch, the query, and its earlier occurrences in the epoch, by position; int64 [count] each."""
        epochs, numbers = np.divmod(np.arange(start, start + count), len(self))
        parts = [[column[numbers[epochs == e]] for column in self._order(e)] for e in np.unique(epochs).tolist()]
        queries, turns = map(np.concatenate, zip(*parts, strict=True))
        return epochs, queries, turns

    def _order(self, epoch: int) -> tuple[Rows, Rows]:
        if epoch not in self._orders:
            self._orders = {old: order for old, order in self._orders.items() if old == epoch - 1}
            if self._data.order is not None:
                queries = self._data.order.of(self.queries, epoch, self._seed)
                self._orders[epoch] = queries, times_before(queries)
            else:
                queries = Shuffled().order(self.queries, self.queries, 1, epoch=epoch, seed=self._seed)
                turn, positions = ranges(np.zeros_like(queries), self._turns[np.searchsorted(self.queries, queries)])
                self._orders[epoch] = queries[positions], turn
        return self._orders[epoch]

    def _draw(self, query: int, epoch: int, turn: int) -> tuple[int, list[str]]:
        data, negatives = self._data, self._data.negatives
        again = [turn] if turn and not self._iterated else []
        source = generator(self._seed, "draw", epoch, data.query_ids[query], *again)
        known = self._positives[self._starts[query] : self._starts[query + 1]]
        positive = int(known[0 if self._drawing.positive == "first" else source.integers(len(known))])
        if not self._width or negatives is None:
            return positive, []
        row, count = int(self._lists[query]), int(self._counts[query])
        if self._iterated:
            positions = np.arange(turn * self._width, (turn + 1) * self._width) % count
        elif self._drawing.negatives_drawn == "uniformly" or data.teacher is None:
            positions = source.choice(count, self._width, replace=count < self._width)
        else:
            rows = data.corpus.rows(negatives.pick(row, np.arange(count)))
            scores = data.teacher.scores(np.array([query]), rows[None]).reshape(-1)
            positions = by_margin(scores, self._width, source)
        return positive, negatives.pick(row, positions)


def times_before(queries: Rows) -> Rows:
    """Return how often each element of `queries` occurs earlier in `queries`; both int64 [n]."""
    order = queries.argsort(stable=True)
    number = np.empty_like(queries)
    number[order] = np.arange(len(queries)) - np.searchsorted(queries[order], queries[order])
    return number


def margin_bins(scores: Scores) -> Rows:
    """Assign each negative's margin to one of ten bins of equal width between the smallest and the largest margin.

    A margin is the positive's teacher score minus the negative's; the positive's score has no effect on the bins.
    scores: float32 [n], teacher scores of the negatives, nan if missing. Returns int64 [n], 0 to 9; -1 without a score.

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling
    (SIGIR 2021), section 3.2, Eq. 5.
    """
    margins, known = -scores.astype(np.float64), ~np.isnan(scores)
    if not known.any():
        return np.full(len(scores), -1, np.int64)
    least, most = margins[known].min(), margins[known].max()
    share = (margins[known] - least) / (most - least) if most > least else np.zeros(int(known.sum()))
    bins = np.full(len(scores), -1, np.int64)
    bins[known] = np.minimum((share * 10).astype(np.int64), 9)
    return bins


def by_margin(scores: Scores, width: int, source: np.random.Generator) -> Rows:
    """Draw `width` negatives: for each, first a random non-empty margin bin, then a random negative in that bin.

    Scored negatives are drawn again only after each has been drawn once. If no negative has a score, all are drawn
    uniformly. scores: float32 [n], teacher scores, nan if missing. Returns positions in `scores`, int64 [width].
    """
    bins, positions = margin_bins(scores), np.empty(width, np.int64)
    if (bins < 0).all():
        positions[:] = source.choice(len(scores), width, replace=len(scores) < width)
        return positions
    left = bins.copy()
    for number in range(width):
        if (left < 0).all():
            left = bins.copy()
        chosen = source.choice(np.unique(left[left >= 0]))
        positions[number] = source.choice(np.flatnonzero(left == chosen))
        left[positions[number]] = -1
    return positions
