"""Gradient caching: the weights of the plain batch, in the memory of a part; losses beside sentence-transformers'."""

import itertools
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from guided_toy import SHAPES, Given, Vectors, drawn
from hypothesis import HealthCheck, given, settings, strategies as st
from precise import PreciseEncoder, PreciseTokens
from sentence_transformers.sentence_transformer.losses import (
    CachedGISTEmbedLoss,
    CachedMultipleNegativesRankingLoss,
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)
from test_loop import Interrupted
from torch import Tensor
from toy import options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import RankNet, Star
from hardneg.protocols import Loss
from hardneg.runtime import Silent
from hardneg.training.methods import dual_encoder as gradient_cache
from hardneg.training.methods.dual_encoder import DualEncoderTraining, guide_masked, self_masked, train
from hardneg.training.options import GuidedMask

Gradients = dict[str, torch.Tensor]


def gradients(encoder: Any, toy: Path, loss: Any, cut: Segments | None = None, **more: Any) -> tuple[float, Gradients]:
    """The loss of one batch and what it gives to each weight."""
    chosen = options(**more)
    way = DualEncoderTraining(encoder, replace(toy_data(toy), segments=cut), chosen)
    batch = next(way.batches(range(0, 1, 1), chosen.batch_size))
    encoder.module.zero_grad()
    torch.manual_seed(7)
    value = loss(way.scores(way.forward_module, batch, chosen.precision == "bf16"))
    value.backward()
    named = encoder.module.named_parameters()
    return value.item(), {name: weights.grad.clone() for name, weights in named if weights.grad is not None}


def assert_equal(found: tuple[float, Gradients], expected: tuple[float, Gradients], within: float = 1e-9) -> None:
    assert found[0] == pytest.approx(expected[0], rel=within, abs=within)
    assert found[1].keys() == expected[1].keys() and len(found[1]) > 4
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=within, atol=within)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    batch_size=st.integers(1, 14),
    chunk=st.integers(1, 8),
    negatives=st.integers(0, 3),
    loss=st.sampled_from([InfoNCE(), Star(), RankNet()]),
    cut=st.sampled_from([None, Segments(length=2, count=3), "tokens"]),
    masked=st.booleans(),
)
def test_value_and_gradients_are_those_of_the_plain_batch(toy_folder, batch_size, chunk, negatives, loss, cut, masked):
    more = {"batch_size": batch_size, "negatives_per_query": negatives, "false_negative_mask": masked}
    encoder, cut = (PreciseTokens(), None) if cut == "tokens" else (PreciseEncoder(), cut)
    plain = gradients(encoder, toy_folder, loss, cut, **more)
    assert_equal(gradients(encoder, toy_folder, loss, cut, chunk=chunk, **more), plain)
    if batch_size > 1 or negatives:
        assert max(float(gradient.abs().max()) for gradient in plain[1].values()) > 1e-6


@pytest.mark.parametrize(("cut", "rows"), [(None, 3), (Segments(length=2, count=3), 9)])
def test_no_pass_with_a_graph_is_larger_than_a_chunk(toy_folder, cut, rows):
    """11 queries and, by two negatives each, up to 33 documents, of up to three segments."""
    encoder = PreciseEncoder()
    gradients(encoder, toy_folder, Star(), cut, batch_size=11, chunk=2)
    passes = encoder.passes
    assert [size for kind, size, graph in passes if kind == "query" and graph] == [2, 2, 2, 2, 2, 1]
    assert max(size for kind, size, _ in passes if kind == "document") <= 2 * rows
    first, second = passes[: len(passes) // 2], passes[len(passes) // 2 :]
    assert not any(graph for *_, graph in first) and all(graph for *_, graph in second)
    assert [told[:2] for told in first] == [told[:2] for told in second]


class Kept:
    """A tensor that a graph keeps for its gradients, counted while it is there."""

    live: ClassVar[list[int]] = [0]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()
        self.live.append(self.live[-1] + tensor.nbytes)
        weakref.finalize(self, Kept.gone, tensor.nbytes).atexit = False

    @classmethod
    def gone(cls, size: int) -> None:
        cls.live.append(cls.live[-1] - size)


def test_graphs_are_gone_before_the_next_pass(toy_folder, monkeypatch):
    """What graphs keep at a time is that of one chunk of each side, however many there are."""
    encoder, peaks = PreciseEncoder(), []
    embed = encoder.embed

    def counted(features: Any, side: str) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
            return embed(features, side)

    monkeypatch.setattr(encoder, "embed", counted)
    for size, chunk in ((4, 4), (12, 4), (48, 4), (48, 48)):
        Kept.live[:] = [0]
        gradients(encoder, toy_folder, Star(), batch_size=size, chunk=chunk)
        assert Kept.live[-1] == 0
        peaks.append(max(Kept.live))
    assert max(peaks[1:3]) <= 1.1 * peaks[0] < peaks[3] / 2, peaks


def test_a_batch_that_is_no_larger_than_a_chunk_is_encoded_once(toy_folder):
    encoder = PreciseEncoder(dropout=0.5)
    plain = gradients(encoder, toy_folder, Star(), batch_size=5)
    assert_equal(gradients(encoder, toy_folder, Star(), batch_size=5, chunk=5), plain, within=0)
    assert len(encoder.passes) == 4


def test_dropout_is_the_same_both_times(toy_folder, monkeypatch):
    """Against the gradients of one graph through all the passes."""
    encoder = PreciseEncoder(dropout=0.5)
    more = {"batch_size": 9, "chunk": 2}
    twice = gradients(encoder, toy_folder, InfoNCE(), **more)
    assert_equal(gradients(encoder, toy_folder, InfoNCE(), **more), twice, within=0)

    class Once:
        @staticmethod
        def apply(anchor: torch.Tensor, passes: Any) -> list[torch.Tensor]:
            return [part for encode in passes for part in encode()]

    monkeypatch.setattr(gradient_cache, "_Twice", Once)
    assert_equal(gradients(encoder, toy_folder, InfoNCE(), **more), twice)
    encoder.module.dropout.p = 0.0
    assert gradients(encoder, toy_folder, InfoNCE(), **more)[0] != pytest.approx(twice[0], rel=1e-3)


@pytest.fixture()
def transformer(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model), similarity="dot", query_length=16, document_length=24), "cpu")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_transformers_gradients(toy_folder, transformer, precision):
    more: dict[str, Any] = {"batch_size": 7, "precision": precision}
    plain = gradients(transformer, toy_folder, Star(), Segments(length=6, count=3), **more)
    cached = gradients(transformer, toy_folder, Star(), Segments(length=6, count=3), chunk=2, **more)
    assert_equal(cached, plain, within=1e-5 if precision == "fp32" else 2e-2)


@pytest.mark.slow
def test_a_transformer_with_dropout_goes_on_bit_for_bit(toy_folder, tmp_path, tiny_model):
    """Also with activations that are computed twice in the second pass."""
    spec = ModelSpec(str(tiny_model), similarity="dot", query_length=16, document_length=24)
    chosen = options(max_steps=6, batch_size=6, chunk=2, gradient_checkpointing=True)

    def run(folder: str, progress: Any, **more: Any) -> dict[str, torch.Tensor]:
        encoder = load_learner(spec, "cpu")
        train(encoder, toy_data(toy_folder), Star(), replace(chosen, **more), tmp_path / folder, progress=progress)
        return encoder.module.state_dict()

    whole = run("whole", Silent())
    with pytest.raises(KeyboardInterrupt):
        run("broken", Interrupted(5))
    for other in (run("broken", Silent()), run("once", Silent(), gradient_checkpointing=False)):
        assert all(torch.equal(tensor, other[name]) for name, tensor in whole.items())


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
    assert not guide_masked(vectors.scored(), mask).valid.all()
    chosen = [QUERY, *itertools.compress(("query-query", POSITIVE), sides)]
    found = ours(InfoNCE(T, directions=tuple(chosen)), vectors, lambda batch: guide_masked(batch, mask))  # type: ignore[arg-type]
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
