"""Masks by a guide's scores and by the model's own: by hand, and what must hold for all."""

from dataclasses import replace

import pytest
import torch
from guided_toy import SHAPES, drawn
from torch import Tensor

from hardneg.records.errors import TrainingError
from hardneg.records.types import ScoreBatch
from hardneg.training.loss_terms import GuidedMask, self_masked


def wide(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def scored(**parts: Tensor) -> ScoreBatch:
    """Two queries, columns p0 n0 p1 n1; scores of the row's positive are 0.5 and -0.2."""
    positive = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    own = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)
    scores = wide([[0.5, 0.47, 0.61, 0.4], [-0.2, -0.215, -0.2, -0.09]])
    return ScoreBatch(scores, positive, own, torch.ones(2, 4, dtype=torch.bool), **parts)


def kept(batch: ScoreBatch) -> list[list[int]]:
    return batch.valid.int().tolist()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (GuidedMask(), [[1, 1, 0, 1], [1, 1, 1, 0]]),
        (GuidedMask(0.02), [[1, 1, 0, 1], [0, 0, 1, 0]]),
        (GuidedMask(0.05), [[1, 0, 0, 1], [0, 0, 1, 0]]),
        (GuidedMask(0.05, "relative"), [[1, 1, 0, 1], [0, 1, 1, 0]]),
        (GuidedMask(0.25, "relative"), [[1, 0, 0, 0], [0, 0, 1, 0]]),
    ],
)
def test_a_guide_masks_by_hand(mask: GuidedMask, expected: list[list[int]]) -> None:
    """Kept up to .5 and -.2; up to .48 and -.22; up to .45 and -.25; up to .475 and -.21; up to .375 and -.25."""
    batch = scored()
    found = mask(replace(batch, guide=batch.scores))
    assert kept(found) == expected
    assert found.scores is batch.scores


def test_queries_and_documents_of_a_positive_are_masked_by_its_row() -> None:
    """What is above the row's own .5 or -.2, not what equals it; documents are of the query they were drawn for."""
    batch = scored(query_query=wide([[-torch.inf, 0.3], [0.3, -torch.inf]]), document_document=wide([[0.1] * 4] * 4))
    guides = {"guide_query_query": wide([[1, 0.5], [0.4, 1]])}
    guides["guide_document_document"] = wide([[0, 0, 0.6, 0.5], [0, 0, 0.5, 0.51], [-0.3, 0, 0, 0], [0, -0.2, 0, 0]])
    found = GuidedMask()(replace(batch, guide=batch.scores, **guides))
    assert found.query_query is not None and found.document_document is not None
    out = -torch.inf
    assert found.query_query.tolist() == [[out, 0.3], [out, out]]
    assert found.document_document.tolist() == [
        [0.1, 0.1, out, 0.1], [0.1, 0.1, 0.1, out], [0.1, out, out, out], [out, 0.1, out, out]
    ]  # fmt: skip
    untouched = GuidedMask()(replace(batch, guide=batch.scores))
    assert untouched.query_query is batch.query_query and untouched.document_document is batch.document_document


def test_the_models_own_scores_mask_by_hand() -> None:
    """Kept up to .6 and -.1; no gradient goes through the comparison."""
    batch = scored(query_query=wide([[-torch.inf, 0.59], [0.59, -torch.inf]]))
    asked = batch.scores.clone().requires_grad_()
    found = self_masked(replace(batch, scores=asked), 0.1)
    assert kept(found) == [[1, 1, 0, 1], [1, 1, 1, 0]]
    assert found.query_query is not None and found.query_query.isfinite().int().tolist() == [[0, 1], [0, 0]]
    assert not found.valid.requires_grad
    assert kept(self_masked(batch, 0.2)) == [[1, 1, 1, 1], [1, 1, 1, 1]]


def test_of_several_positives_the_lowest_counts() -> None:
    batch = scored()
    both = batch.positive | torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    assert kept(GuidedMask()(replace(batch, positive=both, own=batch.own, guide=batch.scores)))[0] == [1, 0, 0, 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_masks_take_away_only_and_never_a_positive(shape: tuple[int, int, int]) -> None:
    batch = drawn(shape).scored()
    counts = []
    for margin in (0.0, 0.1, 0.5):
        for found in (GuidedMask(margin)(batch), self_masked(batch, 0.5 - margin)):
            assert not (found.valid & ~batch.valid).any() and (found.valid | ~batch.positive).all()
        counts.append(int(GuidedMask(margin)(batch).valid.sum()))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def test_mistakes() -> None:
    with pytest.raises(TrainingError, match="guided_mask: the batch has no guide's scores: name an encode stage"):
        GuidedMask()(scored())
    assert GuidedMask(-0.1).problems() == ["margin must be 0 or above, not -0.1"]
    assert GuidedMask(0.1).problems() == GuidedMask(0.0).problems() == []
