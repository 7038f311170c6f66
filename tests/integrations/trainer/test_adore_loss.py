"""A loss whose documents are searched for in each step, against the same by a plain loop."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from trainer_toy import write_toy

from hardneg.formats.vectors import FlatVectors
from hardneg.records import UsageError
from hardneg.trainer import AdoreLoss

DEPTH = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("data") / "toy")


@pytest.fixture
def model(tiny_model: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(tiny_model), device="cpu").eval()


def made(model: Any, data: Path, output: Path, **options: Any) -> AdoreLoss:
    return AdoreLoss(model, f"beir:{data}", SimpleNamespace(output_dir=output, device="cpu"), depth=DEPTH, **options)


def by_hand(model: Any, rows: list[dict[str, Any]], texts: list[str]) -> float:
    """LambdaLoss as published, of the DEPTH documents that score highest; query i is relevant to document i."""
    documents = model.encode(texts).astype(np.float64)
    values = []
    for row in rows:
        scores = documents @ model.encode(row["anchor"]).astype(np.float64)
        order = sorted(range(len(texts)), key=lambda place: (-scores[place], place))[:DEPTH]
        copies = [place for place in order if texts[place] == texts[row["label"]] and place != row["label"]]
        rank = order.index(row["label"]) + 1 if row["label"] in order else DEPTH + 1
        worth = 1 / rank if rank <= DEPTH else 0.0
        pairs = [
            math.log1p(math.exp(scores[place] - scores[row["label"]])) * abs(worth - 1 / (order.index(place) + 1))
            for place in order
            if place != row["label"] and place not in copies
        ]
        values.append(sum(pairs) / len(pairs))
    return sum(values) / len(values)


@pytest.mark.slow
def test_each_query_has_the_list_that_the_index_has_for_it(tmp_path: Path, data: Path, model: Any) -> None:
    loss = made(model, data, tmp_path)
    rows = [loss.dataset[place] for place in (3, 0, 17)]
    features = [model.preprocess([row["anchor"] for row in rows])]
    value = loss(features, torch.tensor([row["label"] for row in rows]))
    corpus = loss._collection.corpus
    assert value.item() == pytest.approx(by_hand(model, rows, corpus.contents(np.arange(len(corpus)))), rel=1e-4)
    value.backward()
    weights = [weight.grad for weight in model.parameters() if weight.requires_grad]
    assert any(grad is not None and grad.abs().sum() > 0 for grad in weights)


@pytest.mark.slow
def test_the_index_is_read_once(tmp_path: Path, data: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = made(model, data, tmp_path)
    read: list[int] = []
    vectors = FlatVectors.read
    monkeypatch.setattr(
        FlatVectors, "read", lambda of, *rows: read.append(min(rows[1], len(of)) - rows[0]) or vectors(of, *rows)
    )
    for _ in range(3):
        loss([model.preprocess(["apple bread"])], torch.tensor([0]))
    assert sum(read) == 60  # all documents


@pytest.mark.slow
def test_it_trains_in_the_trainer(tmp_path: Path, data: Path, model: Any) -> None:
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    usual = {"per_device_train_batch_size": 6, "learning_rate": 3e-3, "report_to": "none", "save_strategy": "no"}
    more = {"use_cpu": True, "max_steps": 12, "logging_steps": 1, "disable_tqdm": True}
    arguments = SentenceTransformerTrainingArguments(output_dir=str(tmp_path), **usual, **more)
    loss = AdoreLoss(model, f"beir:{data}", arguments, depth=DEPTH, loss="ranknet")
    trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=loss.dataset, loss=loss)
    trainer.train()
    values = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert sum(values[-4:]) < sum(values[:4])


def test_a_loss_that_needs_a_teacher_is_refused(tmp_path: Path, data: Path, model: Any) -> None:
    with pytest.raises(UsageError, match="loss kl needs teacher, which it has not: take another loss"):
        made(model, data, tmp_path, loss="kl")


@pytest.mark.parametrize(
    ("starting", "depth", "line"),
    [
        (None, 5, r"AdoreLoss: model: must be a SentenceTransformer, not None"),
        (torch.nn.Module, 0, r"AdoreLoss: model: must be a SentenceTransformer"),
    ],
)
def test_what_it_cannot_take_is_one_line(tmp_path: Path, starting: Any, depth: Any, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        AdoreLoss(starting, "beir:nowhere", SimpleNamespace(output_dir=tmp_path, device="cpu"), depth=depth)
