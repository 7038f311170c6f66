"""The check of vectors: whether those of the trained model lie closer together than those of the start model."""

import numpy as np
from numpy.typing import NDArray

from hardneg.diagnosis.check_result import CheckResult
from hardneg.diagnosis.finished_run import FinishedRun, sample
from hardneg.indexes.dense import DenseIndex
from hardneg.records.layout import INDEX_FOLDER, START
from hardneg.verbs.encode import Encode

MOST_CLOSER = 0.2
LEAST_KEPT = 1 / 3
"""Trainings in small batches on mined negatives kept half, and helped (recipe `dose-batches`)."""


def trained_indexes(run: FinishedRun) -> list[str]:
    """The indexes that trained models have encoded."""
    return [name for name in run.stages(Encode) if run.encoder_of(name) not in ("", START)]


def collapse(run: FinishedRun, index: str) -> CheckResult:
    """The mean cosine of pairs of documents and their effective dimensions, beside those of the start model's index."""
    starts = [name for name in run.stages(Encode) if run.encoder_of(name) == START]
    if not starts:
        return CheckResult("unknown", "the recipe encodes no index with the start model to compare with")
    first = next((name for name in starts if run.dataset_of(name) == run.dataset_of(index)), starts[0])
    (before, wide), (after, narrow) = (_spread(run, name) for name in (first, index))
    return CheckResult.of(
        after - before > MOST_CLOSER or narrow < LEAST_KEPT * wide,
        f"the mean cosine of two documents is {after:.3f} ({first}: {before:.3f}), their effective dimensions are "
        f"{narrow:.1f} ({wide:.1f})",
        {"cosine": after, "start_cosine": before, "dimensions": narrow, "start_dimensions": wide},
        "the vectors collapse: lower the rate, raise the temperature of the loss or the batch, and take fewer or less "
        "hard negatives",
    )


def _spread(run: FinishedRun, stage: str) -> tuple[float, float]:
    opened = DenseIndex.open(run.part(stage, INDEX_FOLDER))
    vectors = opened.searcher.vectors(sample(len(opened.doc_ids), "vectors")).astype(np.float64)
    return mean_cosine(vectors), effective_dimensions(vectors)


def mean_cosine(vectors: NDArray[np.float64]) -> float:
    """The mean cosine of all pairs of different rows; vectors: [n, d], n above 1. A row of zeros has cosine 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    count = len(units)
    return float((np.square(units.sum(axis=0)).sum() - np.square(units).sum()) / max(count * (count - 1), 1))


def effective_dimensions(vectors: NDArray[np.float64]) -> float:
    """The participation ratio of the eigenvalues of the covariance, tr(C)^2 / tr(C^2), between 1 and d; 0 of none.

    Source: Gao et al., A theory of multineuronal dimensionality, dynamics and measurement (2017), equation 3.
    """
    centred = vectors - vectors.mean(axis=0)
    covariance = centred.T @ centred
    total = np.square(covariance).sum()
    return float(np.trace(covariance) ** 2 / total) if total else 0.0
