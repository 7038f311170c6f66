"""Models of other kinds learn as well: adapters, sparse ones, tables; and the rate that each takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.recipes import recipe_in, small_tree
from tiny import BY_FAMILY, tiny_encoder, tiny_static
from toy import Interrupted, options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.losses import infonce, pairwise
from hardneg.records import errors, types
from hardneg.runtime import Silent
from hardneg.training import checkpoint, loop
from hardneg.training.methods.dual_encoder import DualEncoderTraining, LossTerms, train
from hardneg.training.options import usual_rate

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
    found = learnt(way, infonce.InfoNCE(temperature=1 / SCALES[kind_of(encoder)]))
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
    loss = pairwise.Star(alpha=0.5, temperature=1 / SCALES[kind_of(encoder)])
    way = training(encoder, toy_folder, LossTerms())
    found, shown = (learnt(way, loss), way.scores(way.forward_module, next(way.batches(range(0, 1, 1), 5)), False))
    encoder.module.zero_grad()
    expected = loss(replace(shown, scores=their_scores(encoder, columns(way))))
    expected.backward()
    assert_same(found, (expected.item(), gradients(encoder)))


@pytest.mark.parametrize("loss", [pairwise.Star(temperature=0.1), infonce.InfoNCE(temperature=0.1)])
def test_gradient_caching_is_the_plain_batch(encoder: Encoder, toy_folder: Path, loss: Any) -> None:
    plain, cached = (learnt(training(encoder, toy_folder, LossTerms(), chunk=chunk), loss) for chunk in (None, 2))
    assert_same(cached, plain)


@pytest.fixture
def tree(tmp_path):
    tree = small_tree(tmp_path / "data", tiny_encoder(tmp_path / "model"))
    del tree["stages"]["star"]["options"]["learning_rate"]
    tree["stages"]["star"]["loss"] = {"name": "star", "temperature": 0.05}
    return tree


def rate_of(tmp_path, tree, *settings):
    return recipe_in(tmp_path, tree, *settings).stages["star"].options.learning_rate


def test_each_kind_has_its_rate(tmp_path):
    whole, table = (str(tiny_encoder(tmp_path / "whole")), str(tiny_static(tmp_path / "table")))
    assert usual_rate(resolve(whole)) == 2e-5
    assert usual_rate(resolve(ModelSpec(whole, adapter=AdapterSpec()))) == 2e-4
    derived = resolve(ModelSpec(whole, encoder=types.PluginSetting("static")))
    assert usual_rate(derived) == usual_rate(resolve(table)) == 0.01
    assert usual_rate(resolve("org/not-here")) is None


def test_a_recipe_takes_the_rate_of_its_models_kind(tmp_path, tree):
    table = f"model.name={tiny_static(tmp_path / 'table')}"
    assert rate_of(tmp_path, tree) == 2e-5 and rate_of(tmp_path, tree, table) == 0.01
    assert rate_of(tmp_path, tree, table, "stages.star.options.learning_rate=0.003") == 0.003
    tree["stages"]["brought"] = {"stage": "model", "model": str(tmp_path / "table")}
    assert rate_of(tmp_path, tree, "stages.star.model=brought") == 0.01
    assert recipe_in(tmp_path, tree).notes == ()
    (note,) = recipe_in(tmp_path, tree, "model.name=org/not-here").notes
    assert note.startswith("stages.star.options.learning_rate: 2e-05 is assumed because org/not-here is not")


def test_a_tables_rate_is_refused_for_a_transformer(tmp_path, tree):
    tree["stages"]["star"]["options"]["learning_rate"] = 0.03
    with pytest.raises(errors.RecipeError) as refused:
        recipe_in(tmp_path, tree)
    assert refused.value.problems == (
        "stages.star.options.learning_rate: 0.03 suits only static tables; other models collapse to one vector; set it "
        "to 2e-05, which is usual for this model",
    )
    table = f"model.name={tiny_static(tmp_path / 'table')}"
    assert recipe_in(tmp_path, tree, table).notes == ()


def loaded(folder: Path, **adapter: Any) -> Encoder:
    settings = AdapterSpec(rank=4, **adapter)
    return load_learner(
        ModelSpec(str(folder), similarity="dot", query_length=16, document_length=24, adapter=settings), "cpu"
    )


def run(toy: Path, folder: Path, encoder: Encoder, progress: Any = None, **more: Any) -> loop.TrainingResult:
    chosen = options(**{"max_steps": 6, "learning_rate": 3e-2, **more})
    return train(encoder, toy_data(toy), pairwise.Star(), chosen, folder, progress=progress or Silent())


def test_a_stopped_training_of_an_adapter_goes_on_bit_for_bit(toy_folder, tmp_path, tiny_model):
    from safetensors.torch import load_file

    whole = loaded(tiny_model, dropout=0.1)
    before = {name: tensor.clone() for name, tensor in whole.module.state_dict().items()}
    losses = [record["loss"] for record in run(toy_folder, tmp_path / "whole", whole).history]
    assert losses[-1] < losses[0]
    changed = {name for name, tensor in whole.module.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".default" in name}
    with pytest.raises(KeyboardInterrupt):
        run(toy_folder, tmp_path / "broken", loaded(tiny_model, dropout=0.1), Interrupted(5))
    again = loaded(tiny_model, dropout=0.1)
    run(toy_folder, tmp_path / "broken", again)
    found = again.module.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.module.state_dict().items())
    for name in ("model", "optimizer"):
        path = f"checkpoints/step-000000006/{name}.safetensors"
        assert (tmp_path / "whole" / path).read_bytes() == (tmp_path / "broken" / path).read_bytes()
    assert set(load_file(tmp_path / "whole" / "checkpoints" / "step-000000006" / "model.safetensors")) == changed


def test_a_kept_model_of_an_adapter_opens_as_a_plain_one(toy_folder, tmp_path, tiny_model):
    from sentence_transformers import SentenceTransformer

    encoder = loaded(tiny_model)
    run(toy_folder, tmp_path, encoder, keep_every=6)
    opened = SentenceTransformer(str(tmp_path / "kept" / "step-6"), device="cpu")
    ours = encoder.encode(["what is amber"], "query")
    theirs = opened.encode_query(["what is amber"])
    assert torch.cosine_similarity(torch.from_numpy(ours), torch.from_numpy(theirs)) > 0.99999


def test_weights_of_another_model_are_no_checkpoint(tmp_path):
    module, other = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)) for _ in range(2))
    module[0].requires_grad_(False)
    checkpoint.save_learning(module, tmp_path / "weights")
    other[0].requires_grad_(False)
    checkpoint.load_learning(other, tmp_path / "weights")
    assert torch.equal(other[1].weight, module[1].weight) and not torch.equal(other[0].weight, module[0].weight)
    other[1].requires_grad_(False)
    other[0].requires_grad_(True)
    with pytest.raises(RuntimeError, match=r"weight 0\..* does not match the model"):
        checkpoint.load_learning(other, tmp_path / "weights")
