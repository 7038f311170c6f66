"""Refreshed negatives in trainers of the other kinds of models, ADORE's loss, and what is refused."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.base.sampler import GroupByLabelBatchSampler
from tiny import BY_FAMILY, tiny_encoder, tiny_sparse_encoder
from trainer_toy import write_toy

from hardneg.formats.negatives import read_negatives
from hardneg.integrations import refresher
from hardneg.records import RecipeError, TrainingError, UsageError
from hardneg.trainer import AdoreLoss, RefreshedNegatives

QUIET = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1}
STEPS = {"per_device_train_batch_size": 4, "learning_rate": 1e-3, "max_steps": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("data") / "toy")


def trained(trainer: Any, negatives: RefreshedNegatives) -> None:
    """Three steps; two refreshes, of which the second is by another model."""
    negatives.attach(trainer)
    trainer.train()
    told = [record for record in trainer.state.log_history if "refresh" in record]
    assert [(record["refresh"], record["step"]) for record in told] == [(0, 0), (1, 2)]
    scores = [read_negatives(negatives.folder / f"{number:06d}" / "negatives.arrow")[0].scores for number in (0, 1)]
    assert scores[0].tolist() != scores[1].tolist()
    assert len(trainer.state.log_history) == len(told) + STEPS["max_steps"] + 1


@pytest.mark.slow
def test_sparse(tmp_path, data):
    from sentence_transformers import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments
    from sentence_transformers.sparse_encoder.losses import SparseMultipleNegativesRankingLoss, SpladeLoss

    model = SparseEncoder(str(tiny_sparse_encoder(tmp_path / "model")), device="cpu")
    arguments = SparseEncoderTrainingArguments(output_dir=str(tmp_path / "output"), **QUIET, **STEPS)
    negatives = RefreshedNegatives(f"beir:{data}", arguments, every=2, negatives=2, depth=10)
    loss = SpladeLoss(
        model, SparseMultipleNegativesRankingLoss(model), document_regularizer_weight=0.01, query_regularizer_weight=0.1
    )
    trainer = SparseEncoderTrainer(model=model, args=arguments, train_dataset=negatives.dataset, loss=loss)
    trained(trainer, negatives)


@pytest.mark.slow
@pytest.mark.skipif("multi-vector" not in BY_FAMILY, reason="hardneg-multi-vector is not installed")
def test_multi_vector(tmp_path, data, tiny_model):
    from sentence_transformers import MultiVectorEncoder, MultiVectorEncoderTrainer, MultiVectorEncoderTrainingArguments
    from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss

    base = tiny_encoder(tmp_path / "base", kind="transformers")
    model = MultiVectorEncoder(str(base), device="cpu")
    arguments = MultiVectorEncoderTrainingArguments(output_dir=str(tmp_path / "output"), **QUIET, **STEPS)
    negatives = RefreshedNegatives(f"beir:{data}", arguments, every=2, negatives=2, depth=10)
    loss = MultiVectorMultipleNegativesRankingLoss(model)
    trainer = MultiVectorEncoderTrainer(model=model, args=arguments, train_dataset=negatives.dataset, loss=loss)
    trained(trainer, negatives)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["labeled-pair", "labeled-list"])
def test_a_reranker_mines_from_its_own_scores(tmp_path, data, tiny_model, form):
    from sentence_transformers import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss, ListNetLoss

    base = tiny_encoder(tmp_path / "base", kind="transformers")
    model = CrossEncoder(str(base), num_labels=1, device="cpu")
    arguments = CrossEncoderTrainingArguments(output_dir=str(tmp_path / "output"), **QUIET, **STEPS)
    run = {f"q{i}": {f"d{(i + n) % 60}": 1 / (n + 1) for n in range(10)} for i in range(24)}
    found = {"candidates": str(tiny_model)} if form == "labeled-list" else {"run": run}
    mining = {"negatives": 2, "depth": 10, **found, "miner": {"name": "topk", "depth": 4}}
    negatives = RefreshedNegatives(f"beir:{data}", arguments, every=2, form=form, **mining)
    loss = BinaryCrossEntropyLoss(model) if form == "labeled-pair" else ListNetLoss(model)
    trainer = CrossEncoderTrainer(model=model, args=arguments, train_dataset=negatives.dataset, loss=loss)
    trained(trainer, negatives)


def given(tmp_path: Path, data: Path, **options: Any) -> RefreshedNegatives:
    return RefreshedNegatives(f"beir:{data}", SimpleNamespace(output_dir=tmp_path, device="cpu", seed=0), **options)


@pytest.mark.parametrize(
    ("name", "value"), [("every", 0), ("every", "2"), ("negatives", 2.0), ("negatives", True), ("depth", "9")]
)
def test_a_number_that_makes_no_sense_is_told(tmp_path, data, name, value):
    with pytest.raises(UsageError, match=f"{name}: must be a whole number of at least 1, not {value!r}"):
        given(tmp_path, data, **{name: value})


def test_candidates_are_of_one_kind(tmp_path, data):
    with pytest.raises(UsageError, match="candidates cannot be combined with run"):
        given(tmp_path, data, candidates="bm25", run={})


def stand_in(negatives: RefreshedNegatives, **told: Any) -> SimpleNamespace:
    """What of a trainer is looked at."""
    callbacks = SimpleNamespace(callbacks=[])
    usual = {"train_dataset": negatives.dataset, "eval_dataset": None, "callback_handler": callbacks}
    return SimpleNamespace(**{**usual, "is_deepspeed_enabled": False, "is_fsdp_enabled": False, **told})


def test_rows_are_not_evaluated_on(tmp_path, data):
    negatives = given(tmp_path, data)
    for evaluated in (negatives.dataset, {"dev": negatives.dataset}):
        with pytest.raises(UsageError, match="eval_dataset must be other data, since the negatives of `dataset`"):
            negatives.attach(stand_in(negatives, eval_dataset=evaluated))


def test_a_trainer_mines_once(tmp_path, data):
    negatives, added = given(tmp_path, data), list[Any]()
    handler = SimpleNamespace(callbacks=added)
    trainer = stand_in(negatives, callback_handler=handler, add_callback=added.append, get_batch_sampler=None)
    negatives.attach(trainer)
    with pytest.raises(UsageError, match="the trainer is already attached"):
        negatives.attach(trainer)
    assert len(added) == 1


def test_pairs_are_grouped_by_their_labels(tmp_path, data):
    """Of each query one positive, and two negatives as soon as they are mined."""
    rows = given(tmp_path, data, form="labeled-pair", negatives=2).dataset
    sampler = GroupByLabelBatchSampler(rows.fixed(), 4, False, ["label", "labels", "score", "scores"])
    for batch in sampler:
        assert sum(rows[row]["label"] for row in batch) == 2
    assert set(given(tmp_path, data, form="labeled-list").dataset.fixed().column_names) == {"anchor"}


def test_a_miner_that_is_not_there_is_told_before_training(tmp_path, data, tiny_model):
    negatives = given(tmp_path, data, miner={"name": "topp", "depth": 3})
    with pytest.raises(RecipeError, match="did you mean 'topk'"):
        negatives.recipe.plan(str(tiny_model), 0)


def test_only_its_own_rows_and_whole_models_are_taken(tmp_path, data):
    negatives = given(tmp_path, data, candidates="bm25")
    trainer = stand_in(negatives, train_dataset=negatives.dataset.shuffle(), is_deepspeed_enabled=True)
    with pytest.raises(UsageError) as told:
        negatives.attach(trainer)
    assert [line.split(":")[0] for line in str(told.value).split("; ")] == [
        "RefreshedNegatives.attach",
        "DeepSpeed and FSDP are not supported, because they split the model over devices",
        "`candidates` and `run` are only for a CrossEncoder",
    ]


def test_a_dataset_in_memory(tmp_path, data):
    corpus, qrels = {"a": "one", "b": {"title": "two", "text": "more"}}, {"x": {"b": 1}}
    given = {"corpus": corpus, "queries": {"x": "which"}, "qrels": qrels}
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=0)
    rows = RefreshedNegatives(given, arguments).dataset
    assert rows[:] == {"anchor": ["which"], "positive": ["two more"], "negative": [""]}


def test_rows_that_no_trainer_has_are_not_trained_on(tmp_path, data):
    rows = given(tmp_path, data, negatives=2).dataset
    assert rows[0] == {**rows[0], "negative_1": "", "negative_2": ""}
    assert len(rows) == 24
    assert rows.column_names == ["anchor", "positive", "negative_1", "negative_2"]
    with pytest.raises(TrainingError, match=r"call attach\(trainer\)"):
        rows.__getitems__([0, 1])


def test_the_model_of_a_refresh_stays_until_all_processes_have_read_it(tmp_path, monkeypatch):
    """After a stop the first process may find all in the store, and be done before another has looked at the model."""
    done = list[str]()
    made = (SimpleNamespace(), ("key",))
    monkeypatch.setattr(refresher, "saved", lambda model, folder: folder)
    monkeypatch.setattr(refresher, "mine_with", lambda *given: made)
    monkeypatch.setattr(refresher, "barrier", lambda: done.append("barrier"))
    monkeypatch.setattr(refresher.shutil, "rmtree", lambda folder, ignore_errors: done.append(folder.name))
    monkeypatch.setattr(refresher.Refresher, "_publish", lambda *given: {"refresh": 0})
    place = SimpleNamespace(device="cpu", seed=0, store=SimpleNamespace(discard=done.append))
    rows = SimpleNamespace(refreshes=SimpleNamespace(folder=tmp_path))
    one = refresher.Refresher(SimpleNamespace(plan=lambda *given: None), rows, place)
    assert one.refresh(None, 0, 0, 0)["refresh"] == 0
    assert done == ["barrier", "key", "model"]


DEPTH = 12


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
    with pytest.raises(UsageError, match="loss kl needs teacher; use a loss that does not"):
        made(model, data, tmp_path, loss="kl")


@pytest.mark.parametrize("starting", [None, torch.nn.Module])
def test_what_is_no_model_is_told(tmp_path: Path, starting: Any) -> None:
    with pytest.raises(UsageError, match=r"AdoreLoss: model must be a SentenceTransformer, not "):
        AdoreLoss(starting, "beir:nowhere", SimpleNamespace(output_dir=tmp_path, device="cpu"))
