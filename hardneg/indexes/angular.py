"""Cosines as angular scores."""

import numpy as np
from numpy.typing import NDArray


def angular_scores(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 - arccos(cosine) / pi, float32 of the same shape, between 0 and 1: in the order of the cosines.

    Source: Cer et al., Universal Sentence Encoder (2018), section 5, over pi as in Wrzalik and Krechel, HSRM-LAVIS at
    TREC 2020 Deep Learning Track (2020), Eq. 1.
    """
    angles = np.arccos(np.clip(cosines, -1, 1, dtype=np.float64))
    scores: NDArray[np.float32] = (1 - angles / np.pi).astype(np.float32)
    return scores
