"""Training on several collections, or on two sets of queries of one corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.formats.segments import Segments
from hardneg.records import TrainingError, counted
from hardneg.runtime import generator
from hardneg.store import digest
from hardneg.training.batch_orders import Rows
from hardneg.training.examples import Examples, NegativeLists, SampledBatch, TrainingData, times_before
from hardneg.training.options import LearningOptions


@dataclass(frozen=True)
class JoinedCorpora:
    """Several corpora, concatenated into one."""

    corpora: Sequence[Corpus]

    @cached_property
    def starts(self) -> Rows:
        """The first row of each corpus and the total number of rows, int64 [S + 1]."""
        return np.cumsum([0, *map(len, self.corpora)], dtype=np.int64)

    @cached_property
    def content_hash(self) -> NDArray[np.uint64]:
        """Content hash by row, uint64 [N], as in `Corpus`."""
        return np.concatenate([corpus.content_hash for corpus in self.corpora])

    def contents(self, rows: Rows) -> list[str]:
        """Return the title, a space and the text of each document, in the order of `rows`, int64 [n]."""
        texts, number = np.empty(len(rows), object), np.searchsorted(self.starts, rows, "right") - 1
        for at in np.unique(number).tolist():
            chosen = np.flatnonzero(number == at)
            texts[chosen] = self.corpora[at].contents(rows[chosen] - self.starts[at])
        return list(texts)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Training data from several collections; sources: by name, in alphabetical order.

    temperature: a source of n examples is drawn with probability proportional to n^(1/temperature). one_source: draw
    one source per batch, not one per example. segments: windows that all documents are split into, if any.
    """

    sources: Mapping[str, TrainingData]
    temperature: float = 1.0
    one_source: bool = False
    segments: Segments | None = None
    guide: None = None

    @cached_property
    def corpus(self) -> JoinedCorpora:
        return JoinedCorpora([source.corpus for source in self.sources.values()])

    def examples(self, options: LearningOptions) -> "MixedExamples":
        """Return an endless sequence of the examples of all sources."""
        return MixedExamples(self, options)


class MixedExamples:
    """An endless sequence of examples from several sources, each in the order it would have if trained on alone.

    The length of an epoch is the total number of examples. Consecutive batches may come from one source, and a source
    may start its next epoch while another is in its first. skipped: numbers of skipped queries and positives, by reason
    and source.
    """

    def __init__(self, mixture: Mixture, options: LearningOptions) -> None:
        self._mixture, self._batch_size = mixture, options.batch_size
        self.skipped: dict[str, int] = {}
        self._examples: list[Examples] = []
        for name, source in mixture.sources.items():
            try:
                examples = source.examples(options)
            except TrainingError as error:
                raise TrainingError(f"{name}: {error}") from error
            self._examples.append(examples)
            self.skipped |= {f"{reason} of {name}": count for reason, count in examples.skipped.items()}
        sizes = [len(examples) for examples in self._examples]
        self._length = sum(sizes)
        self._order = SourceOrder(source_shares(sizes, mixture.temperature), options.seed)

    def __len__(self) -> int:
        return self._length

    def digest(self) -> str:
        """Return a digest of the examples of all sources and of how sources are drawn."""
        of = self._mixture
        examples = [examples.digest() for examples in self._examples]
        return digest([of.temperature, of.one_source, [*of.sources], [], [], examples])

    def counts(self, batches: int) -> dict[str, int]:
        """Return the number of examples from each source, by name, in the first `batches` batches."""
        of, size = self._mixture, self._batch_size
        drawn = self._order.counts(batches) * size if of.one_source else self._order.counts(batches * size)
        return dict(zip(of.sources, drawn.tolist(), strict=True))

    def draw(self, start: int, count: int) -> SampledBatch:
        """Return `count` examples from position `start` on. Raises DataError if a negative is not in its corpus."""
        if self._mixture.one_source:
            sources, numbers = self._order.at(start // count, 1)
            return self._drawn(int(sources[0]), int(numbers[0]) * count, count)
        sources, numbers = self._order.at(start, count)
        chosen = {source: np.flatnonzero(sources == source) for source in np.unique(sources).tolist()}
        parts = [self._drawn(source, int(numbers[rows[0]]), len(rows)) for source, rows in chosen.items()]
        starts = np.cumsum([0, *(len(part.query_ids) for part in parts[:-1])]).tolist()
        joined = SampledBatch(
            [each for part in parts for each in part.query_ids],
            [each for part in parts for each in part.texts],
            np.concatenate([part.documents for part in parts]),
            np.concatenate([part.known for part in parts]),
            np.concatenate([part.owner + start for part, start in zip(parts, starts, strict=True)]),
            queries=np.concatenate([part.queries for part in parts]),
        )
        return joined.at(np.argsort(np.concatenate(list(chosen.values()))))

    def _drawn(self, source: int, start: int, count: int) -> SampledBatch:
        drawn, first = self._examples[source].draw(start, count), int(self._mixture.corpus.starts[source])
        return replace(drawn, documents=drawn.documents + first, known=drawn.known + first)


AnyExamples = Examples | MixedExamples
_BLOCK = 16_384


def source_shares(sizes: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """Return the probability of each source, float64 [S]: its size to the power of 1 / T, normalised.

    With T = 1 the probability is proportional to the size; a larger T makes the probabilities more equal.

    Source: Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (JMLR
    2020), section 3.5.2.
    """
    logs = np.log(np.array(sizes, np.float64))
    with np.errstate(over="ignore"):  # a tiny T leaves only the largest source
        weights = np.exp((logs - logs.max()) / temperature)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


class SourceOrder:
    """An endless sequence of randomly drawn sources; shares: float64 [S], the probability of each source."""

    def __init__(self, shares: NDArray[np.float64], seed: int) -> None:
        self._shares, self._seed, self._sums = shares, seed, [np.zeros(len(shares), np.int64)]
        self._last = lru_cache(2)(self._numbered)

    def at(self, start: int, count: int) -> tuple[Rows, Rows]:
        """Return the sources of `count` draws from `start` on, and how often each came before; both int64 [count]."""
        first, skipped = divmod(start, _BLOCK)
        parts = map(self._last, range(first, -(-(start + count) // _BLOCK)))
        sources, numbers = map(np.concatenate, zip(*parts, strict=True))
        return sources[skipped : skipped + count], numbers[skipped : skipped + count]

    def counts(self, draws: int) -> Rows:
        """Return how often each source occurs among the first `draws` draws, int64 [S]."""
        block, rest = divmod(draws, _BLOCK)
        return self._before(block) + np.bincount(self._block(block)[:rest], minlength=len(self._shares))

    def _block(self, block: int) -> Rows:
        return generator(self._seed, "sources", block).choice(len(self._shares), _BLOCK, p=self._shares)

    def _numbered(self, block: int) -> tuple[Rows, Rows]:
        drawn = self._block(block)
        return drawn, self._before(block)[drawn] + times_before(drawn)

    def _before(self, block: int) -> Rows:
        """Return how often each source occurs in all earlier blocks, int64 [S]; cached, since blocks come in order."""
        while len(self._sums) <= block:
            last = np.bincount(self._block(len(self._sums) - 1), minlength=len(self._shares))
            self._sums.append(self._sums[-1] + last)
        return self._sums[block]


class JoinedLists:
    """Several files of negatives, concatenated into one `NegativeLists`."""

    def __init__(self, files: Sequence[NegativeLists]) -> None:
        self._files, self._starts = files, np.cumsum([0, *(len(file.counts) for file in files[:-1])], dtype=np.int64)

    @property
    def query_ids(self) -> list[str]:
        return [query_id for file in self._files for query_id in file.query_ids]

    @property
    def counts(self) -> Rows:
        return np.concatenate([file.counts for file in self._files])

    def pick(self, row: int, positions: Rows) -> list[str]:
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        return self._files[number].pick(row - int(self._starts[number]), positions)


def mixed(data: TrainingData, more: TrainingData) -> TrainingData:
    """Return `data` extended by the queries, positives and (if both have any) negatives of `more`, on the same corpus.

    Source: Qu et al., RocketQA (NAACL 2021), step 4: labelled and augmented data are mixed without weights.

    Raises:
        TrainingError: a query is in both sets.
    """
    if both := sorted({*data.query_ids} & {*more.query_ids}):
        shared = counted(len(both), "query is", "queries are")
        raise TrainingError(f"{shared} in both training sets, such as {both[0]!r}; augment with another split")
    files = [part.negatives for part in (data, more) if part.negatives is not None]
    return replace(
        data,
        query_ids=[*data.query_ids, *more.query_ids],
        texts=[*data.texts, *more.texts],
        positives={**data.positives, **more.positives},
        negatives=None if data.negatives is None else JoinedLists(files),
    )
