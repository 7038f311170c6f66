"""A query among its positives and negatives in two dimensions, as two models see them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.errors import MissingDependency

_PERPLEXITY = 30.0


@dataclass(frozen=True)
class Neighbourhood:
    """query: float [d] or [2] when projected; positives: float [P, d or 2]; negatives: float [N, d or 2]."""

    query: NDArray[np.floating]
    positives: NDArray[np.floating]
    negatives: NDArray[np.floating]

    def to_json(self) -> dict[str, Any]:
        """The points as lists."""
        return {
            "query": self.query.tolist(),
            "positives": self.positives.tolist(),
            "negatives": self.negatives.tolist(),
        }


def project(before: Neighbourhood, after: Neighbourhood, seed: int) -> tuple[Neighbourhood, Neighbourhood]:
    """Both neighbourhoods in the same plane by t-SNE; a vector that both have (a fixed document) is one point.

    Args:
        before, after: vectors of the same dimension d.
        seed: of t-SNE; the same seed and vectors give the same points.

    Raises:
        MissingDependency: scikit-learn is not installed.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 6.
    """
    stacked = np.concatenate([_stacked(before), _stacked(after)]).astype(np.float64)
    vectors, place = np.unique(stacked, axis=0, return_inverse=True)
    points = _tsne(vectors, seed)[place.reshape(-1)]
    size = 1 + len(before.positives) + len(before.negatives)
    return _split(points[:size], len(before.positives)), _split(points[size:], len(after.positives))


def _stacked(around: Neighbourhood) -> NDArray[np.floating]:
    return np.concatenate([around.query[None], around.positives, around.negatives])


def _split(points: NDArray[np.float64], positives: int) -> Neighbourhood:
    return Neighbourhood(points[0], points[1 : 1 + positives], points[1 + positives :])


def _tsne(vectors: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise MissingDependency(
            f'the projection needs scikit-learn ({error}); pip install "hardneg[analysis]"'
        ) from error
    if len(vectors) < 4:
        return np.ascontiguousarray(np.pad(vectors, [(0, 0), (0, 2)])[:, :2])
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=seed, learning_rate="auto").fit_transform(vectors)
    return np.asarray(found, np.float64)
