"""Mixtures of training data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hardneg.records.errors import TrainingError
from hardneg.records.wording import counted
from hardneg.training.examples import NegativeLists, TrainingData


@dataclass(frozen=True)
class JoinedLists:
    """The rows of several files of negatives, one file after the other."""

    files: Sequence[NegativeLists]

    @property
    def query_ids(self) -> list[str]:
        """The query of each row."""
        return list(chain.from_iterable(file.query_ids for file in self.files))

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64, how many negatives each row has."""
        return np.concatenate([file.counts for file in self.files])

    def pick(self, row: int, positions: NDArray[np.int64]) -> list[str]:
        """Return the negatives of one row at these positions."""
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        return self.files[number].pick(row - int(self._starts[number]), positions)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(file.counts) for file in self.files[:-1])], dtype=np.int64)


def mixed(data: TrainingData, more: TrainingData) -> TrainingData:
    """The queries of both over one corpus, each with its own positives and negatives, drawn in one shuffled order.

    Source: Qu et al., RocketQA (NAACL 2021), step 4: labelled and augmented data are put together without weights.

    Raises:
        TrainingError: a query is in both.
    """
    if both := sorted({*data.query_ids} & {*more.query_ids}):
        shared = counted(len(both), "query is", "queries are")
        raise TrainingError(f"{shared} in both sets of examples, such as {both[0]!r}: label queries of another split")
    files = [part.negatives for part in (data, more) if part.negatives is not None]
    return replace(
        data,
        query_ids=[*data.query_ids, *more.query_ids],
        texts=[*data.texts, *more.texts],
        positives={**data.positives, **more.positives},
        negatives=None if data.negatives is None else JoinedLists(files),
    )
