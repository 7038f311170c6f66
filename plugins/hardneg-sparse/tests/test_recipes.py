"""Tests of term weights in recipes, in the command `index build`, and in opened models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call
from integrations.trainer import test_other_trainers as trainers
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection
from sparse_lists import write
from stages.test_dual_training import tree_of_dual as training_tree
from tiny import tiny_sparse_encoder
from trainer_toy import write_toy

import hardneg as hn
from hardneg.encoders.open.resolved import ResolvedModels, resolve
from hardneg.formats.runs import read_run
from hardneg.records import RecipeError, UsageError
from hardneg.registry import list_plugins
from hardneg.testing.indexes import write_encoded
from hardneg.trainer import RefreshedNegatives

_CUT = {"length": 8, "count": 3, "stride": 4}


def _tree(data: Path, model: Path, **stages: dict[str, Any]) -> dict[str, Any]:
    lengths = {"query_length": 16, "document_length": 24}
    return {"dataset": f"beir:{data}", "model": {"name": str(model), **lengths}, "stages": stages}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_collection(tmp_path_factory.mktemp("collection") / "data")


def test_indexes_that_take_something_else_are_told(data: Path, tmp_path: Path) -> None:
    model = tiny_sparse_encoder(tmp_path / "splade")
    stages = {
        "weights": {"stage": "encode"},
        "pq": {"stage": "index", "backend": "pq", "vectors": "weights"},
        "none": {"stage": "index", "backend": "sparse"},
        "right": {"stage": "index", "backend": "impact", "vectors": "weights"},
    }
    with pytest.raises(RecipeError) as told:
        recipe_in(tmp_path, _tree(data, model, **stages))
    assert told.value.problems == (
        "stages.pq.backend: pq is built from vectors, but 'weights' has weights; use another index",
        "stages.none.vectors: missing; sparse is built from the weights of an encode stage",
    )


@pytest.mark.slow
def test_documents_in_segments_are_found_by_their_best_one(data: Path, tmp_path: Path) -> None:
    search = {"stage": "search", "split": "test", "depth": 60}
    stages = {
        "parts": {"stage": "encode", "segments": _CUT},
        "again": {"stage": "index", "backend": "sparse", "vectors": "parts"},
        "all": {**search, "index": "parts"},
        "indexed": {**search, "index": "again"},
        "candidates": {**search, "index": "parts", "candidates": "all"},
    }
    tree = _tree(data, tiny_sparse_encoder(tmp_path / "splade"), **stages)
    plan = plan_in(tmp_path, tree)
    made = artifacts_of(plan, tmp_path / "store")
    assert made["parts"].facts["segments"] == made["again"].facts["segments"] == 180
    runs = [dict(read_run(made[name].path / "run.trec.gz")) for name in ("all", "indexed", "candidates")]
    assert len(runs[0]) == 14 and all(len(ranked.doc_ids) > 40 for ranked in runs[0].values())
    for query_id, ranked in runs[0].items():
        for run in runs[1:]:
            assert len(set(run[query_id].doc_ids)) == len(run[query_id].doc_ids)
            np.testing.assert_allclose(run[query_id].scores[:40], ranked.scores[:40], rtol=1e-5)


def test_a_penalty_fits_its_model(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(each.name, each.package) for each in list_plugins("regularizer")] == [("flops", "hardneg-sparse")]
    tree = training_tree(small_collection(tmp_path / "data"), tiny_model)
    with pytest.raises(RecipeError, match="flops penalizes term weights, but the recipe's model has one"):
        plan_in(tmp_path, tree, "stages.star.regularizer=flops")
    unknown = resolve("nobody/nothing")
    monkeypatch.setattr(ResolvedModels, "of", lambda *_, **__: unknown)
    with pytest.raises(RecipeError, match=r"stages\.star\.regularizer: cannot be combined with segments"):
        plan_in(tmp_path, tree, "stages.star.regularizer=flops", "segments={length: 8, count: 2}")


def _build(*arguments: object) -> tuple[str, BaseException | None]:
    result = call("index", "build", *arguments)
    return result.output, result.exception


def test_indexes_weights_of_terms(tmp_path: Path) -> None:
    flat = write_encoded(tmp_path / "flat", np.ones((3, 2), np.float32))
    source, output = write(tmp_path / "weights"), tmp_path / "made"
    said, error = _build("--vectors", source, "--backend", "sparse", "--output", output)
    assert error is None, said
    size = sum(path.stat().st_size for path in output.iterdir() if path.name != "docid")
    assert f"{output}: 5 passages, {size} bytes" in said
    _, error = _build("--vectors", flat, "--backend", "sparse", "--output", tmp_path / "other")
    assert isinstance(error, UsageError) and f"{flat} contains vectors, but sparse is built from weights" in str(error)
    _, error = _build("--dataset", "pydocs", "--backend", "sparse", "--output", tmp_path / "other")
    assert isinstance(error, UsageError) and "sparse is built from weights; give only --vectors, a folder of w" in str(
        error
    )
    _, error = _build("--vectors", source, "--backend", "flat", "--output", tmp_path / "other")
    assert isinstance(error, UsageError) and f"{source} contains weights, but flat is built from vectors" in str(error)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_live_model(tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    data = small_collection(tmp_path / "data")
    live = SparseEncoder(str(tiny_sparse_encoder(tmp_path / "model")), device="cpu")
    at: dict[str, Any] = {"store": tmp_path / "store", "device": "cpu"}
    runs = [hn.search(data, model, depth=5, **at) for model in (live, tmp_path / "model")]
    lists = [{query_id: list(each.doc_ids) for query_id, each in run} for run in runs]
    assert lists[0] == lists[1]


@pytest.mark.slow
def test_negatives_are_refreshed_in_their_trainer(tmp_path):
    from sentence_transformers import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
    from sentence_transformers.sparse_encoder.losses import SparseMultipleNegativesRankingLoss, SpladeLoss

    model = SparseEncoder(str(tiny_sparse_encoder(tmp_path / "model")), device="cpu")
    arguments = SparseEncoderTrainingArguments(output_dir=str(tmp_path / "output"), **trainers.QUIET, **trainers.STEPS)
    negatives = RefreshedNegatives(f"beir:{write_toy(tmp_path / 'data')}", arguments, every=2, negatives=1, depth=10)
    loss = SpladeLoss(
        model, SparseMultipleNegativesRankingLoss(model), document_regularizer_weight=0.01, query_regularizer_weight=0.1
    )
    trainer = SparseEncoderTrainer(model=model, args=arguments, train_dataset=negatives.dataset, loss=loss)
    trainers.trained(trainer, negatives)
