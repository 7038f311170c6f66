"""`hardneg index build` on weights of terms, and live models, as a user calls them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call
from integrations.trainer import test_other_trainers as trainers
from recipes.recipes import small_collection
from sparse_lists import write
from tiny import tiny_sparse_encoder
from trainer_toy import write_toy

import hardneg as hn
from hardneg.records import UsageError
from hardneg.testing.indexes import write_encoded
from hardneg.trainer import RefreshedNegatives


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
    assert isinstance(error, UsageError) and f"{flat} holds vectors, but sparse is built from weights" in str(error)
    _, error = _build("--dataset", "pydocs", "--backend", "sparse", "--output", tmp_path / "other")
    assert isinstance(error, UsageError) and "sparse is built from weights: give --vectors, a folder of w" in str(error)
    _, error = _build("--vectors", source, "--backend", "flat", "--output", tmp_path / "other")
    assert isinstance(error, UsageError) and f"{source} holds weights, but flat is built from vectors" in str(error)
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
