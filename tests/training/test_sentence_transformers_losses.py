"""Guided masks, hardness, directions: value and gradients of sentence-transformers; self-masks: by the formula."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from guided_toy import SHAPES, Given, Vectors, drawn
from sentence_transformers.sentence_transformer.losses import (
    CachedGISTEmbedLoss,
    CachedMultipleNegativesRankingLoss,
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor

from hardneg.losses.infonce import InfoNCE
from hardneg.protocols import Loss
from hardneg.training.loss_terms import GuidedMask, self_masked

T = 0.05
QUERY, POSITIVE = "query-document", "positive-positive"
EVERY = (QUERY, "query-query", "document-query", "document-document")


def theirs(loss: Any, vectors: Vectors) -> tuple[float, list[Tensor]]:
    """The value, and the gradients of queries and documents."""
    value = loss(vectors.columns(), torch.zeros(len(vectors.queries)))
    return value.item(), vectors.gradients(value)


def assert_same(found: tuple[float, list[Tensor]], expected: tuple[float, list[Tensor]]) -> None:
    assert found[0] == pytest.approx(expected[0], abs=1e-5) and found[0] > 0.01
    for mine, other in zip(found[1], expected[1], strict=True):
        assert mine.abs().max() > 1e-3
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


def in_parts(vectors: Vectors, name: str) -> list[list[Tensor]]:
    """Each column in parts of two, as cached losses hold them."""
    return [list(column[name].split(2)) for column in vectors.columns()]


def ours(loss: Loss, vectors: Vectors, mask: Callable[[Any], Any] = lambda batch: batch) -> tuple[float, list[Tensor]]:
    batch = mask(vectors.scored())
    negatives = batch.valid & ~batch.positive
    assert negatives.any(1).all()
    value = loss(batch)
    return value.item(), vectors.gradients(value)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("mask", "sides"),
    [
        (GuidedMask(), (True, True)),
        (GuidedMask(0.1), (True, False)),
        (GuidedMask(0.2, "relative"), (False, True)),
        (GuidedMask(0.05, "relative"), (False, False)),
    ],
)
def test_gist(shape: tuple[int, int, int], mask: GuidedMask, sides: tuple[bool, bool]) -> None:
    """Also its cached form, and alone where there are more negatives than it takes."""
    vectors = drawn(shape)
    assert not mask(vectors.scored()).valid.all()
    chosen = [QUERY, *itertools.compress(("query-query", POSITIVE), sides)]
    found = ours(InfoNCE(T, directions=tuple(chosen)), vectors, mask)  # type: ignore[arg-type]
    options = {"temperature": T, "margin_strategy": mask.kind, "margin": mask.margin}
    options |= {"contrast_anchors": sides[0], "contrast_positives": sides[1]}
    if shape[1] < 2:
        assert_same(found, theirs(GISTEmbedLoss(Given("own"), Given("guide"), **options), vectors))  # type: ignore[arg-type]
    cached: Any = CachedGISTEmbedLoss(Given("own"), Given("guide"), mini_batch_size=2, **options)  # type: ignore[arg-type]
    value = cached.calculate_loss(in_parts(vectors, "own"), in_parts(vectors, "guide"))
    assert_same(found, (value.item(), vectors.gradients(value)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [MultipleNegativesRankingLoss, CachedMultipleNegativesRankingLoss])
@pytest.mark.parametrize(
    ("which", "mode", "alpha"),
    [("others", "in_batch_negatives", 9), ("own", "hard_negatives", 5), ("all", "all_negatives", 2.5)],
)
def test_hardness(shape: tuple[int, int, int], kind: Any, which: Any, mode: str, alpha: float) -> None:
    vectors = drawn(shape)
    found = ours(InfoNCE(T, hardness=alpha, hardness_of=which), vectors)
    loss = kind(Given("own"), scale=1 / T, hardness_mode=mode, hardness_strength=alpha)
    if kind is CachedMultipleNegativesRankingLoss:
        value = loss.calculate_loss(in_parts(vectors, "own"))
        assert_same(found, (value.item(), vectors.gradients(value)))
    else:
        assert_same(found, theirs(loss, vectors))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("directions", [EVERY, EVERY[:2], (QUERY, "document-query"), (QUERY, "document-document")])
def test_directions(shape: tuple[int, int, int], directions: Any) -> None:
    vectors = drawn(shape)
    named = [name.replace("document", "doc").replace("-", "_to_") for name in directions]
    loss = MultipleNegativesRankingLoss(Given("own"), scale=1 / T, directions=tuple(named))  # type: ignore[arg-type]
    assert_same(ours(InfoNCE(T, directions=directions), vectors), theirs(loss, vectors))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("margin", [0.1, 0.0])
def test_the_self_mask_by_the_published_formula(shape: tuple[int, int, int], margin: float) -> None:
    """Query by query: Z adds up s(q, d), s(q, q') and s(d+, d') that are not above s(q, d+) + margin."""
    vectors = drawn(shape)
    directions: Any = (QUERY, "query-query", "document-document")
    found = ours(InfoNCE(T, directions=directions), vectors, lambda batch: self_masked(batch, margin))
    value, dropped = _by_formula(vectors, margin)
    assert dropped > 2
    assert_same(found, (value.item(), vectors.gradients(value)))


def _by_formula(vectors: Vectors, margin: float) -> tuple[Tensor, int]:
    losses, dropped = [], 0
    count, width, _ = vectors.documents.shape
    for i in range(count):
        query, positive = vectors.queries[i], vectors.documents[i, 0]
        own = _cosine(query, positive)
        others = [vectors.documents[j, k] for j in range(count) for k in range(width) if j != i]
        terms = [_cosine(query, vectors.documents[i, k]) for k in range(1, width)]
        terms += [_cosine(query, other) for other in others]
        terms += [_cosine(query, vectors.queries[j]) for j in range(count) if j != i]
        terms += [_cosine(positive, other) for other in others]
        kept = [term for term in terms if term.item() <= own.item() + margin]
        dropped += len(terms) - len(kept)
        total = sum((torch.exp(term / T) for term in kept), torch.exp(own / T))
        losses.append(torch.log(total) - own / T)
    return torch.stack(losses).mean(), dropped


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum() / (one.norm() * other.norm())


def test_the_batch_is_as_it_is_said_to_be() -> None:
    """Six queries with a positive and a negative each: columns lie query by query."""
    batch = drawn(SHAPES[1]).scored()
    assert batch.query_query is not None and batch.document_document is not None
    assert batch.positive.nonzero().tolist() == [[row, 2 * row] for row in range(6)]
    assert batch.query_query.isneginf().nonzero().tolist() == [[row, row] for row in range(6)]
    assert int(batch.document_document.isneginf().sum()) == 6 * 4
