"""Averages of weights, by hand."""

import json
from pathlib import Path

import pytest
import torch
from tiny import BY_FAMILY, tiny_encoder, tiny_static

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import ModelError
from hardneg.training.averaging import WeightSum, greedy, weighted


def opened(folder: Path) -> Encoder:
    return load_learner(ModelSpec(str(folder)), "cpu")


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    return {name: tiny_static(tmp_path / name, seed=number) for number, name in enumerate("abc")}


def table(encoder: Encoder) -> torch.Tensor:
    (weights,) = (tensor for tensor in encoder.module.state_dict().values() if tensor.is_floating_point())
    return weights


@pytest.mark.parametrize("make", BY_FAMILY.values())
def test_each_weight_is_the_mean_of_all(make, tmp_path: Path) -> None:
    models = {name: opened(make(tmp_path / name, seed=seed)) for seed, name in enumerate(("one", "two"))}
    states = {name: {**model.module.state_dict()} for name, model in models.items()}
    states = {name: {weight: tensor.clone() for weight, tensor in state.items()} for name, state in states.items()}
    mean = weighted(models.__getitem__, {"one": 3.0, "two": 1.0}).module.state_dict()
    changed = 0
    for name, tensor in mean.items():
        expected = 0.75 * states["one"][name] + 0.25 * states["two"][name]
        torch.testing.assert_close(tensor, expected.to(tensor.dtype))
        changed += not torch.equal(tensor, states["one"][name])
    assert changed


def test_a_start_and_what_it_became_halfway(folders: dict[str, Path]) -> None:
    halfway = table(weighted(lambda name: opened(folders[name]), {"a": 0.5, "b": 0.5}))
    torch.testing.assert_close(halfway, (table(opened(folders["a"])) + table(opened(folders["b"]))) / 2)


def test_the_greedy_average_leaves_out_what_does_harm(folders: dict[str, Path]) -> None:
    rows = {name: table(opened(folder))[5, 0].item() for name, folder in folders.items()}
    target = (rows["a"] + rows["b"]) / 2  # the mean of a and b is best; c only takes away from it

    def measure(encoder: Encoder) -> float:
        return -abs(table(encoder)[5, 0].item() - target)

    order = sorted(rows, key=lambda name: abs(rows[name] - target))
    encoder, chosen, alone = greedy(lambda name: opened(folders[name]), "abc", measure)
    assert alone == pytest.approx({name: -abs(value - target) for name, value in rows.items()})
    assert chosen[0] == order[0]
    reached = [alone[order[0]]]
    kept = [order[0]]
    for name in order[1:]:  # the recipe of the paper, with numbers in place of models
        value = -abs(sum(rows[each] for each in [*kept, name]) / (len(kept) + 1) - target)
        if value >= reached[-1]:
            kept, reached = [*kept, name], [*reached, value]
    assert chosen == kept
    assert measure(encoder) == pytest.approx(reached[-1], abs=1e-6)
    assert len(chosen) < 3


def test_models_of_other_shapes_are_refused_by_name(folders: dict[str, Path], tmp_path: Path) -> None:
    other = tiny_encoder(tmp_path / "other")
    with pytest.raises(
        ModelError, match=r"^other: .*weight is missing, in a \(\d+, 32\); average models of one architecture"
    ):
        weighted(lambda name: opened({**folders, "other": other}[name]), {"a": 1.0, "other": 1.0})


def test_models_of_other_vocabularies_are_refused_by_name(folders: dict[str, Path]) -> None:
    """Of one size, but two tokens have changed places: each table has the row of another token there."""
    file = folders["b"] / "tokenizer.json"
    tokens = json.loads(file.read_text())
    vocabulary = tokens["model"]["vocab"]
    vocabulary["ab"], vocabulary["cd"] = vocabulary["cd"], vocabulary["ab"]
    file.write_text(json.dumps(tokens))
    with pytest.raises(ModelError, match=r"^b: the vocabulary is not as in a; average models"):
        weighted(lambda name: opened(folders[name]), {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("shares", [{"a": 1e308, "b": 1e308}, {"a": 1.0, "broken": 1.0}])
def test_a_mean_that_is_not_finite_is_refused(folders: dict[str, Path], shares: dict[str, float]) -> None:
    def either(name: str) -> Encoder:
        encoder = opened(folders.get(name, folders["a"]))
        if name == "broken":
            table(encoder)[3] = torch.nan
        return encoder

    with pytest.raises(ModelError, match=r"the mean of .*weight is not finite: check the models' weights, and"):
        weighted(either, shares)


def test_whole_numbers_must_be_the_same(folders: dict[str, Path]) -> None:
    one, two = (WeightSum(name, {"w": torch.ones(1)}, {"steps": torch.tensor(n)}, 1.0) for n, name in enumerate("ab"))
    with pytest.raises(ModelError, match="b: steps differs"):
        one.plus(two)
    assert one.plus(WeightSum("c", {"w": torch.zeros(1)}, {"steps": torch.tensor(0)}, 1.0)).total == 2.0
