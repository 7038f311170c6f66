"""Training of a reranker on the toy task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes import codes, launch
from reranker_toy import learn_pairs, pair_options, toy_network, train_still
from safetensors.torch import load_file
from toy import Interrupted, toy_data

from hardneg.encoders.protocol import EncodeOptions
from hardneg.losses import infonce, listwise
from hardneg.losses.pairwise import Bce, RankNet, TwoClass
from hardneg.records import RankedList, TrainingError
from hardneg.rerankers.network import PairScorer
from hardneg.training import examples, options, validation
from hardneg.training.methods.reranker import RerankerTraining, ascent, perturbed

HERE = Path(__file__).parents[1]
FP32 = EncodeOptions(precision="fp32")


@pytest.mark.parametrize("loss", [Bce(), RankNet(), infonce.InfoNCE()], ids=lambda loss: type(loss).__name__)
def test_the_loss_goes_down(toy_folder: Path, tmp_path: Path, tiny_model: Path, loss: Any) -> None:
    network = toy_network(tiny_model)
    result = learn_pairs(network, toy_folder, tmp_path, loss=loss, max_steps=16)
    losses = [record["loss"] for record in result.history]
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])
    data = toy_data(toy_folder)
    documents = data.corpus.contents(data.corpus.rows(["p3", "n3", "n4", "n5"]))
    (scores,) = PairScorer.of(network.module, "cpu", FP32).rerank([(data.texts[3], documents)])
    assert scores[0] == max(scores)


def test_two_outputs_learn_as_two_classes(toy_folder: Path, tmp_path: Path, tiny_model: Path) -> None:
    network = toy_network(tiny_model, outputs=2)
    result = learn_pairs(network, toy_folder, tmp_path, loss=TwoClass(), max_steps=1)
    batch = next(reranking(tiny_model, toy_folder).batches(range(0, 4, 4), 4))
    start = toy_network(tiny_model, outputs=2)
    with torch.no_grad():
        outputs = start.module(dict(batch.features))["scores"].view(4, 3, 2)
    labels = torch.tensor([1, 0, 0]).repeat(4)
    expected = torch.nn.functional.cross_entropy(outputs.reshape(-1, 2), labels)
    first = next(iter(result.history))["loss"]
    assert first == pytest.approx(float(expected), abs=0.1)  # the difference is dropout


def reranking(model: Path, toy: Path, **more: Any) -> RerankerTraining:
    return RerankerTraining(toy_network(model), toy_data(toy), Bce(), pair_options(**more))


def test_known_positives_and_their_copies_are_no_negatives(toy_folder: Path, tiny_model: Path) -> None:
    data = toy_data(toy_folder)
    rows = data.corpus.rows(["p0", "c0", "n1", "p1", "p0", "extra0"]).reshape(2, 3)
    known = data.corpus.rows(["p0", "extra0", "p1"])
    draw = examples.SampledBatch(["q0", "q1"], ["one", "two"], rows, known, np.array([0, 0, 1]))
    batch = reranking(tiny_model, toy_folder).make(draw)
    assert batch.valid.tolist() == [[True, False, True], [True, True, True]]
    assert len(batch.features["input_ids"]) == 6


def test_a_teachers_scores_are_learnt_from(toy_folder: Path, tmp_path: Path, tiny_model: Path) -> None:
    """Of two queries' documents, one has no score; ListNet by hand from the network's own scores."""
    data = toy_data(toy_folder)
    rows = data.corpus.rows(["p0", "n0", "n1", "p1", "n1", "n2"]).reshape(2, 3)
    known = data.corpus.rows(["p0", "p1"])
    teacher = np.array([[3, 1, 2], [1, np.nan, 2]], np.float32)
    draw = examples.SampledBatch(["q0", "q1"], ["one", "two"], rows, known, np.array([0, 1]), teacher)
    training = reranking(tiny_model, toy_folder)
    for part in training.trainable.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    batch = training.scores(training.forward_module, training.make(draw), half=False)
    assert batch.teacher is not None
    np.testing.assert_array_equal(batch.teacher.numpy(), teacher)
    scores = batch.scores.detach().double().numpy()

    def cross_entropy(labels: list[float], own: list[float]) -> float:
        shares = np.exp(labels) / np.exp(labels).sum()
        return float(-(shares * (own - np.log(np.exp(own).sum()))).sum())

    expected = (cross_entropy([3, 1, 2], scores[0]) + cross_entropy([1, 2], scores[1][[0, 2]])) / 2
    assert float(listwise.ListNet(labels="teacher")(batch).detach()) == pytest.approx(expected, abs=1e-6)


def test_a_stopped_run_goes_on_bit_for_bit(toy_folder: Path, tmp_path: Path, tiny_model: Path) -> None:
    for adversarial in (0.0, 0.05):
        whole, broken = tmp_path / f"whole-{adversarial}", tmp_path / f"broken-{adversarial}"
        network = toy_network(tiny_model)
        learn_pairs(network, toy_folder, whole, adversarial=adversarial)
        with pytest.raises(KeyboardInterrupt):
            learn_pairs(toy_network(tiny_model), toy_folder, broken, Interrupted(5), adversarial=adversarial)
        again = toy_network(tiny_model)
        learn_pairs(again, toy_folder, broken, adversarial=adversarial)
        found = again.module.state_dict()
        assert all(torch.equal(tensor, found[name]) for name, tensor in network.module.state_dict().items())
    plain, moved_ones = (
        load_file(tmp_path / f"whole-{size}" / "checkpoints/step-000000006/model.safetensors") for size in (0.0, 0.05)
    )
    assert any(not torch.equal(tensor, moved_ones[name]) for name, tensor in plain.items())


def test_the_adversary_moves_the_looked_up_embeddings_alone() -> None:
    layer = torch.nn.Embedding(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]))
    ids = torch.tensor([0, 2, 2])
    loss = (layer(ids) * torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 2.0]])).sum()
    step = ascent(loss, layer.weight, 0.5)  # the gradient is [[3, 0], [0, 0], [0, 4]], of norm 5
    torch.testing.assert_close(step, torch.tensor([[0.3, 0.0], [0.0, 0.0], [0.0, 0.4]]))
    with perturbed(layer, step):
        vectors = layer(ids)
        torch.testing.assert_close(vectors, torch.tensor([[1.3, 0.0], [2.0, 2.4], [2.0, 2.4]]))
        vectors.square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[2.6, 0.0], [0.0, 0.0], [8.0, 9.6]]))
    torch.testing.assert_close(layer(ids[:1]), torch.tensor([[1.0, 0.0]]))
    assert not ascent((layer(ids) * 0).sum(), layer.weight, 0.5).any()


def test_the_adversary_raises_the_loss(toy_folder: Path, tiny_model: Path) -> None:
    plain, adversarial = (reranking(tiny_model, toy_folder, adversarial=size) for size in (0.0, 1.0))
    batch = next(plain.batches(range(0, 4, 4), 4))
    with torch.no_grad():
        before = Bce()(plain.scores(plain.forward_module, batch, False))
    after = Bce()(adversarial.scores(adversarial.forward_module, batch, False))
    assert float(after.detach()) > float(before) + 1e-3


def test_dev_queries_are_reranked(toy_folder: Path, tiny_model: Path) -> None:
    data, network = toy_data(toy_folder), toy_network(tiny_model)
    listed = [["n1", "p0", "n2"], ["n3", "n4", "n5"]]
    run = {q: RankedList(ids, np.array([3, 2, 1], np.float32)) for q, ids in zip(("q0", "q1"), listed, strict=True)}
    qrels = {"q0": {"p0": 1, "n9": 0}, "q1": {"p1": 2}, "q2": {"n1": 0}}
    dev = validation.ValidationData(data.corpus, ["q0", "q1", "q2", "q3"], [*data.texts[:4]], qrels, run)
    contents = data.corpus.contents(data.corpus.rows(listed[0]))
    (scores,) = PairScorer.of(network.module, "cpu", FP32).rerank([(data.texts[0], contents)])
    rank = 1 + sum(score > scores[1] for score in scores)
    found = validation.rerank_validation(network, dev, 3, FP32)()
    expected = {"mrr@10": 1 / rank / 2, "ndcg@10": 1 / np.log2(rank + 1) / 2, "recall@100": 0.5}
    assert found == pytest.approx(expected)
    with pytest.raises(TrainingError, match="no dev query"):
        validation.rerank_validation(
            network, validation.ValidationData(data.corpus, ["q2"], ["x"], qrels, run), 3, FP32
        )


def test_options_of_a_reranker() -> None:
    problems = options.RerankerOptions(negatives_per_query=0, adversarial=-1).problems()
    assert [line.split()[0] for line in problems] == ["adversarial", "negatives_per_query"]
    assert "adversarial" in options.RerankerOptions().identity()
    assert not {"chunk", "false_negative_mask"} & {*options.RerankerOptions.__dataclass_fields__}


@pytest.mark.slow
def test_two_processes_learn_what_one_does(toy_folder: Path, tiny_model: Path, tmp_path: Path) -> None:
    running = launch([HERE / "reranker_toy.py", toy_folder, tiny_model, tmp_path], 2)
    train_still(toy_folder, tiny_model, tmp_path, 0, 1)
    assert codes(running) == [0, 0]
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    assert len(one) > 20
    for other in two:
        for name, tensor in one.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6)
