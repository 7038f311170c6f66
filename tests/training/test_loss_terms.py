"""Masks, losses at several sizes of vectors and penalties: by hand, and against those of sentence-transformers."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from guided_toy import SHAPES, drawn, toy_guide
from hypothesis import HealthCheck, given, settings, strategies as st
from precise import PreciseEncoder, PreciseTokens
from torch import Tensor
from toy import BagEncoder, Squares, options, toy_data

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.formats.vectors import FlatWriter
from hardneg.indexes import compressed, product
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import Star
from hardneg.records import ScoreBatch, TrainingError, UsageError
from hardneg.runtime import Silent
from hardneg.training.methods.dual_encoder import (
    DualEncoderTraining,
    LossTerms,
    guide_masked,
    self_masked,
    stored,
    train,
)
from hardneg.training.options import GuidedMask

DIMS = {6: 1.0, 4: 0.5, 1: 2.0}
EVERY = InfoNCE(directions=("query-document", "query-query", "document-query", "document-document"), hardness=0.5)
MASKED = LossTerms(guided_mask=GuidedMask(), self_mask=0.1)
PENALTY = Squares(0.3, 0.7)
STORED = LossTerms({6: 1.0, 4: 0.5}, precisions=("float32", "int8", "binary"))


def learnt(way: DualEncoderTraining, loss: Any, done: float = 0.9) -> tuple[Any, dict[str, torch.Tensor]]:
    """What the first batch gives to minimise, and each weight's gradient."""
    batch = next(way.batches(range(0, 1, 1), 5))
    way.trainable.zero_grad()
    found, penalty = way.minimised(loss, way.forward_module, batch, False, done)
    total = found if penalty is None else found + penalty
    total.backward()
    named = way.trainable.named_parameters()
    return total, {name: weights.grad.clone() for name, weights in named if weights.grad is not None}


def assert_same(found: Any, expected: Any, within: float) -> None:
    assert found[0] == pytest.approx(expected[0], abs=within)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=within, atol=within)


@pytest.mark.parametrize("cut", [None, Segments(length=2, count=3)])
def test_the_sum_of_the_losses_of_models_that_are_cut(toy_folder, cut):
    """Each model's loss and gradients, by its weight."""
    data, encoder = replace(toy_data(toy_folder), segments=cut), PreciseEncoder()
    whole: Any = encoder
    found, gradients = learnt(DualEncoderTraining(whole, data, options(batch_size=5), LossTerms(DIMS)), Star())
    total, expected = (0.0, {name: torch.zeros_like(gradient) for name, gradient in gradients.items()})
    for dim, weight in DIMS.items():
        short: Any = PreciseEncoder(kept=dim)
        short.module = encoder.module
        value, own = learnt(DualEncoderTraining(short, data, options(batch_size=5)), Star())
        total += weight * value.item()
        for name in expected:
            expected[name] += weight * own[name]
    assert_same((found.item(), gradients), (total, expected), 1e-9)


@pytest.mark.parametrize("cut", [None, Segments(length=2, count=3)])
@pytest.mark.parametrize("terms", [LossTerms(DIMS), LossTerms(DIMS, PENALTY), LossTerms({}, PENALTY), STORED])
def test_gradient_caching_changes_nothing(toy_folder, cut, terms):
    if cut is not None and terms.regularizer is not None:
        terms = replace(terms, regularizer=None)
    data, encoder = replace(toy_data(toy_folder), segments=cut), PreciseEncoder()
    whole: Any = encoder
    ways = (DualEncoderTraining(whole, data, options(batch_size=5, chunk=chunk), terms) for chunk in (None, 2))
    plain, cached = (learnt(way, InfoNCE()) for way in ways)
    assert_same((cached[0].item(), cached[1]), (plain[0].item(), plain[1]), 1e-9)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(size=st.integers(2, 9), chunk=st.integers(1, 4), margin=st.sampled_from([0.0, 0.2]), tokens=st.booleans())
def test_gradient_caching_changes_nothing_of_masks_and_directions(toy_folder, size, chunk, margin, tokens):
    data = toy_data(toy_folder)
    data, encoder = (replace(data, guide=toy_guide(data)), PreciseTokens() if tokens else PreciseEncoder())
    whole: Any = encoder
    terms = LossTerms(guided_mask=GuidedMask(margin, "relative"), self_mask=2 * margin)
    ways = (DualEncoderTraining(whole, data, options(batch_size=size, chunk=part), terms) for part in (None, chunk))
    plain, cached = (learnt(way, EVERY) for way in ways)
    assert_same((cached[0].item(), cached[1]), (plain[0].item(), plain[1]), 1e-9)


def test_what_a_loss_sees_of_a_guide_and_of_the_model(toy_folder):
    """Products of the vectors of the documents in play; the guide teaches where no run does; nothing else is made."""
    data, encoder = toy_data(toy_folder), PreciseEncoder()
    guide, whole = toy_guide(data), encoder
    way = DualEncoderTraining(whole, replace(data, guide=guide), options(batch_size=5), MASKED)  # type: ignore[arg-type]
    seen: list[ScoreBatch] = []

    class Looks(InfoNCE):
        def __call__(self, batch: ScoreBatch) -> torch.Tensor:
            seen.append(batch)
            return super().__call__(batch)

    batch = next(way.batches(range(0, 1, 1), 5))
    draw = way.examples.draw(0, 5)
    way.minimised(Looks(directions=EVERY.directions), way.forward_module, batch, False, 0.0)
    plain = way.scores(way.forward_module, batch, False)
    assert seen[0].guide is not None and seen[0].query_query is not None and seen[0].document_document is not None
    rows = draw.documents.reshape(-1)
    expected = guide.queries[draw.queries] @ guide.documents.encoded(rows).T  # type: ignore[union-attr]
    torch.testing.assert_close(seen[0].guide, torch.from_numpy(expected))
    queries, documents = way.forward_module(batch.queries, batch.documents)
    own, chosen = queries @ queries.T, documents[batch.column]
    assert seen[0].query_query.isneginf()[range(5), range(5)].all()
    there = seen[0].query_query.isfinite()
    torch.testing.assert_close(seen[0].query_query[there], own[there])
    there = seen[0].document_document.isfinite()
    torch.testing.assert_close(seen[0].document_document[there], (chosen @ chosen.T)[there])
    assert not there[:3, :3].any() and there.any()
    assert plain.guide is plain.query_query is plain.document_document is plain.teacher is None
    assert (seen[0].valid <= plain.valid).all() and int(seen[0].valid.sum()) < int(plain.valid.sum())


def test_documents_in_segments_have_no_scores_with_each_other(toy_folder):
    data, encoder = (replace(toy_data(toy_folder), segments=Segments(length=2, count=3)), PreciseEncoder())
    whole: Any = encoder
    with pytest.raises(UsageError, match="segmented documents have no scores with each other"):
        learnt(DualEncoderTraining(whole, data, options(batch_size=5)), EVERY)


def test_the_loss_of_stored_documents_is_that_of_their_decoded_vectors_and_queries_stay_as_they_are():
    """At each size and precision, by its weight."""
    vectors, encoder = (
        drawn((4, 1, 8)),
        SimpleNamespace(truncated=lambda encoded, dimension: encoded[..., :dimension]),
    )
    of: Any = encoder
    seen = []

    def loss_of(cut: Any, change: Any) -> torch.Tensor:
        queries, documents = (cut(vectors.queries), change(cut(vectors.documents.flatten(0, 1))))
        seen.append((queries.shape[1], documents.detach()))
        return (queries @ documents.T).square().sum()

    terms = LossTerms({8: 1.0, 4: 0.5}, precisions=("float32", "binary"))
    value = terms.loss(of, loss_of)
    sizes = [(dim, len({round(abs(number), 5) for number in kept[0].tolist()})) for dim, kept in seen]
    assert sizes == [(8, 8), (8, 1), (4, 4), (4, 1)]
    queries, expected = vectors.queries, 0.0
    for weight, (dim, kept) in zip((1, 1, 0.5, 0.5), seen, strict=True):
        expected += weight * (queries[:, :dim] @ kept.T).square().sum().item()
    assert value.item() == pytest.approx(expected, rel=1e-6)


BY_HAND = torch.tensor([[3.0, -4.0], [0.0, 5.0], [-5.0, 0.0]])  # each of norm 5


def test_stored_vectors_by_hand():
    """Of 255 steps each decodes to its middle; the largest number to half a step above the last."""
    int8 = stored(BY_HAND, "int8")
    steps = torch.tensor([8, 9]) / 255
    expected = torch.tensor([-5.0, -4.0]) + torch.tensor([[255.5, 0.5], [159.5, 255.5], [0.5, 113.5]]) * steps
    torch.testing.assert_close(int8, expected)
    root = 5 / 2**0.5
    assert torch.equal(stored(BY_HAND, "float32"), BY_HAND)
    torch.testing.assert_close(stored(BY_HAND, "binary"), torch.tensor([[root, -root], [-root, root], [-root, -root]]))


@pytest.mark.parametrize("precision", ["int8", "binary"])
def test_gradients_pass_through_as_if_vectors_were_whole(precision):
    vectors, factors = (BY_HAND.clone().requires_grad_(), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    (stored(vectors, precision) * factors).sum().backward()
    assert vectors.grad is not None and torch.equal(vectors.grad, factors)


@pytest.mark.parametrize(("precision", "backend"), [("int8", compressed.Sq8()), ("binary", product.Binary())])
def test_stored_vectors_are_those_that_the_index_decodes(precision, backend, tmp_path):
    pytest.importorskip("faiss")
    vectors = torch.nn.functional.normalize(torch.randn(40, 16, generator=torch.Generator().manual_seed(3)), dim=1)
    with FlatWriter(tmp_path / "flat", 16, 40) as writer:
        writer.write(vectors.numpy())
        writer.write_doc_ids(map(str, range(40)))
        writer.close()
    backend.build(tmp_path / "flat", tmp_path / "index", Silent())
    decoded = torch.from_numpy(backend.open(tmp_path / "index").vectors(np.arange(40)))
    torch.testing.assert_close(stored(vectors, precision), decoded, rtol=1e-5, atol=1e-6)


def test_a_penalty_counts_documents_by_their_columns(toy_folder):
    """Against the mean over all columns, documents that stand in several of them repeated."""
    encoder: Any = PreciseEncoder()
    way = DualEncoderTraining(encoder, toy_data(toy_folder), options(batch_size=5), LossTerms({}, PENALTY))
    batch = next(way.batches(range(0, 1, 1), 5))
    assert len(batch.column) == 15 > batch.distinct
    queries, documents = way.forward_module(batch.queries, batch.documents)
    expected = 0.3 * queries.mean(0).square().sum() + 0.7 * documents[batch.column].mean(0).square().sum()
    loss, penalty = way.minimised(Star(), way.forward_module, batch, False, 0.0)
    assert penalty is not None and penalty.item() == pytest.approx(expected.item())
    plain = DualEncoderTraining(encoder, toy_data(toy_folder), options(batch_size=5))
    assert loss.item() == plain.minimised(Star(), plain.forward_module, batch, False, 0.0)[0].item()


def test_penalties_grow_and_are_told(toy_folder, tmp_path):
    """Eight steps, a ramp over the first half: the penalty is 0 at the first, whole from the fifth on."""
    encoder: Any = BagEncoder()
    encoder.module.dropout.p = 0.0
    terms = LossTerms({}, Squares(ramp=0.5))
    alike = {"batch_size": 12, "negatives_per_query": 0, "positive": "first"}
    chosen = options(max_steps=8, learning_rate=1e-9, accumulate=1, **alike)
    result = train(encoder, toy_data(toy_folder), Star(), chosen, tmp_path, progress=Silent(), terms=terms)
    penalties = [record["penalty"] for record in result.history]
    shares = [penalty / penalties[-1] for penalty in penalties]
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1, 1, 1], abs=1e-4)
    assert [record["penalty"] for record in map(json.loads, (tmp_path / "history.jsonl").open())] == penalties


def test_terms_are_part_of_a_runs_identity(toy_folder):
    encoder: Any = PreciseEncoder()
    ways = [
        DualEncoderTraining(encoder, toy_data(toy_folder), options(), terms)
        for terms in (
            LossTerms(),
            LossTerms({6: 1.0}),
            LossTerms({6: 2.0}),
            LossTerms({}, Squares()),
            LossTerms(self_mask=0),
        )
    ]
    masks = (GuidedMask(), GuidedMask(0.1), GuidedMask(0.1, "relative"))
    data = toy_data(toy_folder)
    data = replace(data, guide=toy_guide(data))
    ways += [DualEncoderTraining(encoder, data, options(), LossTerms(guided_mask=mask)) for mask in masks]
    ways.append(DualEncoderTraining(encoder, data, options()))
    assert ways[0].digest() == ways[0].examples.digest()
    assert len({way.digest() for way in ways}) == 9


def test_more_dimensions_than_there_are(toy_folder):
    encoder: Any = PreciseEncoder()
    with pytest.raises(UsageError, match="dims: 7 exceeds the model's 6 dimensions; use fewer"):
        DualEncoderTraining(encoder, toy_data(toy_folder), options(), LossTerms({7: 1.0, 2: 1.0}))


@pytest.mark.parametrize("dims", [{}, {32: 1.0, 16: 0.5, 4: 2.0}])
def test_losses_are_those_of_sentence_transformers(toy_folder, tiny_model, dims):
    """MultipleNegativesRankingLoss, alone and within MatryoshkaLoss: value and gradients of the same batch."""
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss

    encoder = load_learner(ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")
    assert encoder.spec.similarity == "cosine"
    chosen = options(batch_size=5, false_negative_mask=False)
    way = DualEncoderTraining(encoder, toy_data(toy_folder), chosen, LossTerms(dims))
    value, gradients = learnt(way, InfoNCE(temperature=0.05))
    draw = way.examples.draw(0, 5)
    documents = [way._corpus.contents(draw.documents[:, place]) for place in range(3)]
    columns = [encoder.features(draw.texts, "query"), *(encoder.features(texts, "document") for texts in documents)]
    theirs: Any = MultipleNegativesRankingLoss(encoder.module, scale=20)
    if dims:
        theirs = MatryoshkaLoss(encoder.module, theirs, list(dims), list(dims.values()))
    encoder.module.zero_grad()
    expected = theirs(columns, torch.zeros(5))
    expected.backward()
    named = encoder.module.named_parameters()
    their_gradients = {name: weights.grad for name, weights in named if weights.grad is not None}
    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    assert len(their_gradients) > 30
    sides = (gradients, their_gradients)
    ours, whole = (torch.cat([found[name].flatten() for name in their_gradients]) for found in sides)
    assert float((ours - whole).norm() / whole.norm()) < 1e-5


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
    found = guide_masked(replace(batch, guide=batch.scores), mask)
    assert kept(found) == expected
    assert found.scores is batch.scores


def test_queries_and_documents_of_a_positive_are_masked_by_its_row() -> None:
    """What is above the row's own .5 or -.2, not what equals it; documents are of the query they were drawn for."""
    batch = scored(query_query=wide([[-torch.inf, 0.3], [0.3, -torch.inf]]), document_document=wide([[0.1] * 4] * 4))
    guides = {"guide_query_query": wide([[1, 0.5], [0.4, 1]])}
    guides["guide_document_document"] = wide([[0, 0, 0.6, 0.5], [0, 0, 0.5, 0.51], [-0.3, 0, 0, 0], [0, -0.2, 0, 0]])
    found = guide_masked(replace(batch, guide=batch.scores, **guides), GuidedMask())
    assert found.query_query is not None and found.document_document is not None
    out = -torch.inf
    assert found.query_query.tolist() == [[out, 0.3], [out, out]]
    assert found.document_document.tolist() == [
        [0.1, 0.1, out, 0.1], [0.1, 0.1, 0.1, out], [0.1, out, out, out], [out, 0.1, out, out]
    ]  # fmt: skip
    untouched = guide_masked(replace(batch, guide=batch.scores), GuidedMask())
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
    assert kept(guide_masked(replace(batch, positive=both, own=batch.own, guide=batch.scores), GuidedMask()))[0] == [
        1,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_masks_take_away_only_and_never_a_positive(shape: tuple[int, int, int]) -> None:
    batch = drawn(shape).scored()
    counts = []
    for margin in (0.0, 0.1, 0.5):
        for found in (guide_masked(batch, GuidedMask(margin)), self_masked(batch, 0.5 - margin)):
            assert not (found.valid & ~batch.valid).any() and (found.valid | ~batch.positive).all()
        counts.append(int(guide_masked(batch, GuidedMask(margin)).valid.sum()))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def test_mistakes() -> None:
    with pytest.raises(TrainingError, match="guided_mask: the batch has no guide scores; set `guide`"):
        guide_masked(scored(), GuidedMask())
    assert GuidedMask(-0.1).problems() == ["margin must be at least 0, not -0.1"]
    assert GuidedMask(0.1).problems() == GuidedMask(0.0).problems() == []
