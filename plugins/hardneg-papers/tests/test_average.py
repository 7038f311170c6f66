"""Tests of the stage `average`: means of weights computed by hand, and models that cannot be averaged."""

from pathlib import Path
from typing import Any

import pytest
from hardneg_papers.average import check_alike
from recipes.recipes import small_collection, small_tree, write_recipe
from safetensors.torch import load_file
from tiny import tiny_encoder, tiny_static

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.records import ModelError, RecipeError, UsageError
from hardneg.store import Store


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    tree = small_tree(small_collection(tmp_path / "data"), str(tiny_encoder(tmp_path / "model")))
    tree["stages"]["mean"] = {"stage": "average", "models": {"STAR": "star"}}
    return tree


def test_a_start_beside_all_seeds_has_the_weight_of_them_together(tmp_path: Path, tree: dict[str, Any]) -> None:
    recipe = load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=("seeds=[1,2]",))
    assert recipe.stages["mean"].models == {"STAR": {1: "star-seed-1", 2: "star-seed-2"}}  # type: ignore[attr-defined]
    tree["stages"]["mean"] |= {"models": {"STAR": "star", "before": "start"}, "weights": {"before": 3.0}}
    recipe = load_recipe(write_recipe(tmp_path / "r.yaml", tree), settings=("seeds=[1,2]",))
    assert recipe.stages["mean"].shares == {"STAR.1": 0.5, "STAR.2": 0.5, "before": 3.0}  # type: ignore[attr-defined]
    tree["stages"]["mean"]["weights"] = {"STARS": 1}
    with pytest.raises(RecipeError, match="weights: no model is called 'STARS'"):
        load_recipe(write_recipe(tmp_path / "r.yaml", tree))


def test_each_weight_is_the_mean_of_all(tmp_path: Path, tree: dict[str, Any]) -> None:
    other = tiny_encoder(tmp_path / "other", seed=5)
    (other / "config.json").write_text((other / "config.json").read_text().replace("0.1,", "0.5,"))  # of dropout
    tree["stages"] |= {
        "other": {"stage": "model", "model": str(other)},
        "mean": {"stage": "average", "models": {"a": "start", "b": "other"}, "weights": {"a": 3}},
        "alone": {"stage": "average", "models": {"a": "start"}},
        "huge": {"stage": "average", "models": {"a": "start", "b": "other"}, "weights": {"a": 1e308, "b": 1e308}},
    }
    plan = make_plan(load_recipe(write_recipe(tmp_path / "r.yaml", tree)))
    store, options = Store(tmp_path / "store"), Options(device="cpu", until="mean")
    made = execute(plan, store, options, Watcher()).artifacts["mean"]
    folders = (tmp_path / "model", other, made.path / "model")
    one, two, mean = (load_file(next(folder.rglob("*.safetensors"))) for folder in folders)
    for name, tensor in mean.items():
        assert (tensor - (0.75 * one[name] + 0.25 * two[name])).abs().max() < 1e-6
    for name, said in (("alone", "cannot average a single model"), ("huge", "weight is not finite")):
        with pytest.raises((UsageError, ModelError), match=said):
            execute(plan, store, Options(device="cpu", until=name), Watcher())


@pytest.mark.parametrize(
    ("kind", "file", "old", "new", "said"),
    [
        (tiny_static, "tokenizer.json", '"ab"', '"ab "', "the vocabulary"),
        (tiny_static, "tokenizer.json", '"lowercase": true', '"lowercase": false', "the tokenizer's normalizer"),
        (tiny_encoder, "tokenizer.json", '"lowercase": true', '"lowercase": false', "the tokenizer's normalizer"),
        (tiny_encoder, "1_Pooling/config.json", "mode_mean_tokens", "mode_cls_token", "pooling_mode of 1"),
        (tiny_encoder, "config.json", '"gelu"', '"relu"', "hidden_act of 0"),
        (tiny_encoder, "config.json", 'attention_heads": 2', 'attention_heads": 4', "num_attention_heads of 0"),
    ],
)
def test_models_that_compute_otherwise_are_refused_by_name(tmp_path: Path, kind, file, old, new, said) -> None:
    paths = [kind(tmp_path / name, seed=seed) for seed, name in enumerate("ab")]
    (paths[1] / file).write_text((paths[1] / file).read_text().replace(old, new, 1))
    paths.append(({tiny_static, tiny_encoder} - {kind}).pop()(tmp_path / "c"))
    first, second, third = (load_learner(ModelSpec(str(path)), "cpu") for path in paths)
    with pytest.raises(ModelError, match=f"^b: {said}.* differs from the first model's; use models"):
        check_alike(first, second, "b")
    with pytest.raises(ModelError, match=r"^c: .*weight differs from the first model's"):
        check_alike(first, third, "c")
