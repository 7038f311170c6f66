"""`average`: a command and a function whose result is a model as training gives it."""

from pathlib import Path

import pytest
from command_line import hardneg
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tiny import tiny_static

import hardneg as hn
from hardneg.records.errors import ModelError, UsageError


@pytest.fixture
def models(workplace: Path) -> list[str]:
    return [str(tiny_static(workplace / name, seed=seed)) for seed, name in enumerate(("start", "trained"))]


def test_the_mean_by_weights_is_a_model(models, workplace):
    """By hand: (1 * start + 3 * trained) / 4."""
    mean = hn.average(models, weights=[1, 3], device="cpu")
    tables = [load_file(Path(path, "model.safetensors")) for path in (*models, mean.path)]
    ((name, found),) = tables[2].items()
    assert (found - (0.25 * tables[0][name] + 0.75 * tables[1][name])).abs().max() < 1e-6
    assert mean.facts["models"] == 2 and hn.average(models, weights=[1, 3], device="cpu").key == mean.key
    assert hn.average(models, device="cpu").key != mean.key != hn.average(models[::-1], weights=[1, 3]).key
    SentenceTransformer(str(mean.path), device="cpu").encode_query(["river"])
    assert "Average of: start (weight 1), trained (weight 3)" in (mean.path / "README.md").read_text()
    words = [word for path in models for word in ("--model", path)]
    hardneg("average", *words, "--weight", "1", "--weight", "3", "--output", "between")
    assert (workplace / "between" / "model.safetensors").read_bytes() == (mean.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("count", "weights", "line"),
    [
        (1, None, "average: give models twice or more"),
        (2, [1.0], "average: 1 weights for 2 models: give one of each, in order"),
        (2, [1.0, 0.0], "weights: must be numbers above 0 (got 0.0)"),
        (2, "12", "weights: must be numbers above 0 (got '12')"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(models, count, weights, line):
    with pytest.raises(UsageError) as raised:
        hn.average(models[:count], weights=weights)
    assert str(raised.value) == line


def test_a_model_that_stands_twice_or_has_another_architecture(models, tiny_model):
    with pytest.raises(UsageError, match="stands twice in models: give it larger weights"):
        hn.average([models[0], models[0]])
    with pytest.raises(ModelError, match="average models of one architecture and vocabulary"):
        hn.average([models[0], str(tiny_model)], device="cpu")
