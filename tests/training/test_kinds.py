"""Every kind of encoder learns what sentence-transformers' own losses have it learn, whatever the batch is cut into."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import BY_FAMILY
from toy import options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import Star
from hardneg.training.loss_terms import LossTerms
from hardneg.training.methods.dual_encoder import DualEncoderTraining

SCALES = {"dense": 20.0, "static": 20.0, "sparse": 1.0, "multi-vector": 1.0}


@pytest.fixture(scope="module", params=list(BY_FAMILY))
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = BY_FAMILY[request.param](tmp_path_factory.mktemp("kinds") / request.param)
    return learner_of(folder, {} if request.param == "multi-vector" else {"query_length": 16, "document_length": 24})


def learner_of(folder: Path, lengths: dict[str, int]) -> Encoder:
    """The model without dropout."""
    loaded = load_learner(ModelSpec(str(folder), **lengths), "cpu")
    loaded.module.train()  # in evaluation mode SPLADE's pooling overwrites what gradients need
    for part in loaded.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return loaded


def kind_of(encoder: Encoder) -> str:
    """By sentence-transformers' own class."""
    names = {"SparseEncoder": "sparse", "MultiVectorEncoder": "multi-vector"}
    first = type(next(encoder.module.children())).__name__
    return names.get(type(encoder.module).__name__, "static" if first == "StaticEmbedding" else "dense")


def training(encoder: Encoder, toy: Path, terms: LossTerms, **more: Any) -> DualEncoderTraining:
    return DualEncoderTraining(encoder, toy_data(toy), options(batch_size=5, **more), terms)


def learnt(way: DualEncoderTraining, loss: Any) -> tuple[float, torch.Tensor]:
    """What the first batch gives to minimise, and the gradients of all weights in a row."""
    batch = next(way.batches(range(0, 1, 1), 5))
    way.trainable.zero_grad()
    found, penalty = way.minimised(loss, way.forward_module, batch, False, 0.9)
    total = found if penalty is None else found + penalty
    total.backward()
    return total.item(), gradients(way.encoder)


def gradients(encoder: Encoder) -> torch.Tensor:
    given = [(weights.grad, weights) for weights in encoder.module.parameters()]
    return torch.cat([(torch.zeros_like(weights) if grad is None else grad).flatten() for grad, weights in given])


def assert_same(found: tuple[float, torch.Tensor], expected: tuple[float, torch.Tensor]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert float(expected[1].norm()) > 1e-4
    assert float((found[1] - expected[1]).norm() / expected[1].norm()) < 1e-5


def columns(way: DualEncoderTraining) -> list[dict[str, Any]]:
    """The texts of the batch as sentence-transformers' losses take them: queries, positives, then negatives."""
    encoder, draw = way.encoder, way.examples.draw(0, 5)
    documents = [way._corpus.contents(draw.documents[:, place]) for place in range(3)]
    texts = [("query", draw.texts), *(("document", each) for each in documents)]
    return [_theirs(encoder, list(each), kind) for kind, each in texts]


def _theirs(encoder: Encoder, texts: list[str], kind: Any) -> dict[str, Any]:
    if kind_of(encoder) == "static":
        return dict(encoder.module.tokenize(texts))
    return {**encoder.features(texts, kind), "task": kind}


def their_loss(encoder: Encoder, lambdas: tuple[float, float] = (0.0, 0.0), **more: Any) -> Any:
    kind, module, scale = kind_of(encoder), encoder.module, SCALES[kind_of(encoder)]
    if kind == "sparse":
        from sentence_transformers.sparse_encoder.losses import SparseMultipleNegativesRankingLoss, SpladeLoss

        sparse: Any = module
        return SpladeLoss(sparse, SparseMultipleNegativesRankingLoss(sparse, scale=scale), *lambdas, **more)
    if kind == "multi-vector":
        from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss

        return MultiVectorMultipleNegativesRankingLoss(module, scale=scale)
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    return MultipleNegativesRankingLoss(module, scale=scale)


def test_infonce_is_their_multiple_negatives_ranking_loss(encoder: Encoder, toy_folder: Path) -> None:
    way = training(encoder, toy_folder, LossTerms(), false_negative_mask=False)
    found = learnt(way, InfoNCE(temperature=1 / SCALES[kind_of(encoder)]))
    encoder.module.zero_grad()
    value = their_loss(encoder)(columns(way), None)
    expected = sum(value.values()) if isinstance(value, dict) else value
    expected.backward()
    assert_same(found, (expected.item(), gradients(encoder)))


def their_scores(encoder: Encoder, features: list[dict[str, Any]]) -> torch.Tensor:
    """float32 [5, 15]: by sentence-transformers' own modules and scoring; a query's three documents side by side."""
    from sentence_transformers.multi_vector_encoder.scoring import colbert_scores
    from sentence_transformers.util import cos_sim, dot_score

    kind = kind_of(encoder)
    name = "token_embeddings" if kind == "multi-vector" else "sentence_embedding"
    tasks = [{"task": each["task"]} if kind == "multi-vector" else {} for each in features]
    out = [encoder.module(each, **task) for each, task in zip(features, tasks, strict=True)]
    made = [each[name] for each in out]
    if kind == "multi-vector":
        masks = [each["attention_mask"].bool() for each in out]
        parts = [
            colbert_scores(made[0], documents[:, None], queries_mask=masks[0], documents_mask=mask[:, None])
            for documents, mask in zip(made[1:], masks[1:], strict=True)
        ]
    else:
        parts = [(dot_score if kind == "sparse" else cos_sim)(made[0], documents) for documents in made[1:]]
    return torch.stack(parts, 2).flatten(1)


def test_star_learns_through_their_modules(encoder: Encoder, toy_folder: Path) -> None:
    """Value and gradients of STAR's loss over the scores that sentence-transformers computes."""
    loss = Star(alpha=0.5, temperature=1 / SCALES[kind_of(encoder)])
    way = training(encoder, toy_folder, LossTerms())
    found, shown = learnt(way, loss), way.scores(way.forward_module, next(way.batches(range(0, 1, 1), 5)), False)
    encoder.module.zero_grad()
    expected = loss(replace(shown, scores=their_scores(encoder, columns(way))))
    expected.backward()
    assert_same(found, (expected.item(), gradients(encoder)))


@pytest.mark.parametrize("loss", [Star(temperature=0.1), InfoNCE(temperature=0.1)])
def test_gradient_caching_is_the_plain_batch(encoder: Encoder, toy_folder: Path, loss: Any) -> None:
    plain, cached = (learnt(training(encoder, toy_folder, LossTerms(), chunk=chunk), loss) for chunk in (None, 2))
    assert_same(cached, plain)
