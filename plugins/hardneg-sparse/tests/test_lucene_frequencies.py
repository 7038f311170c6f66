import numpy as np
import pytest
from hardneg_sparse.impact import Impact, frequency_texts
from sparse_lists import rows_of

from hardneg.encoders.open.model_card import IMPACT_SCALE
from hardneg.records import UsageError


def test_each_document_is_a_text_of_terms_and_frequencies() -> None:
    offsets, words = np.array([0, 2, 2, 3, 5]), np.array([f"{term}\ue001" for term in "abcac"], object)
    texts = frequency_texts(offsets, words, np.array([3, 120, 0, 0, 7]))
    assert texts == ["\ue000a\ue0013\ue000b\ue001120", "\ue000", "\ue000", "\ue000c\ue0017"]
    assert frequency_texts(np.array([0]), words[:0], np.array([], np.int64)) == []


def test_weights_are_scaled_and_rounded() -> None:
    rows = rows_of([{0: 1.004, 1: 0.004}, {}, {2: 2.5}])
    assert Impact().impacts(rows, "").tolist() == [100, 0, 250] and Impact().scale == IMPACT_SCALE
    assert Impact(scale=1).impacts(rows, "").tolist() == [1, 0, 2]


def test_what_lucene_cannot_count_is_refused() -> None:
    with pytest.raises(UsageError, match=r"from row 7 on, weights are below 0.*use the sparse index"):
        Impact().impacts(rows_of([{0: 1.0}, {1: -1.0}]), "from row 7 on, ")
    with pytest.raises(UsageError, match=r"too large for scale 100"):
        Impact().impacts(rows_of([{0: 1.0}, {1: 2e7, 2: 2e7}]), "")
    for scale in (0, -1, 1e6, float("nan")):
        with pytest.raises(UsageError, match="scale is"):
            Impact(scale=scale)
