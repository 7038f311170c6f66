"""Every shipped recipe, in every preset, without running it."""

import dataclasses
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from recipes.recipes import NEEDS_PAPERS, paper_presets, presets_by_recipe

from hardneg.recipes import load_recipe, make_plan, plan as planning
from hardneg.recipes.language import RecipeFunction, find_recipe, head_comment, named_recipes, shipped_recipes
from hardneg.store import digest
from hardneg.training.step import schedule_factor

OUTSIDE = {
    **dict.fromkeys((("star-colbert", preset) for preset in ("demo", "small", "paper")), "hardneg_multi_vector"),
    ("ance-nq", "paper"): "hardneg_datasets",
    ("dpr-nq", "paper"): "hardneg_datasets",
    ("cort-electra-passage", "paper"): "hardneg_electra",
    ("rocketqa-nq", "demo"): "hardneg_reader",
    ("rocketqa-nq", "paper"): "hardneg_reader",
    **{("ance-splade", preset): "hardneg_sparse" for preset in ("demo", "paper")},
    **{("star-splade", preset): "hardneg_sparse" for preset in ("demo", "small", "paper")},
}
PRESETS = [(name, preset) for name, presets in presets_by_recipe().items() for preset in presets]


class Keys(dict[tuple[str, str], dict[str, str]]):
    """Those of a recipe's steps in a preset, planned when they are first asked for."""

    def __missing__(self, asked: tuple[str, str]) -> dict[str, str]:
        name, preset = asked
        known = paper_presets().get(name) if preset == "paper" else None
        self[asked] = dict(make_plan(known or load_recipe(find_recipe(name), preset), []).keys)
        return self[asked]


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys()


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_it_has_no_mistakes_and_ends_in_a_report(name: str, preset: str, keys: dict[tuple[str, str], dict[str, str]]):
    if (name, preset) in OUTSIDE and not importlib.util.find_spec(OUTSIDE[name, preset]):
        pytest.skip(f"{OUTSIDE[name, preset]} is not installed: pip install it from plugins/")
    assert "report" in keys[name, preset]


@pytest.mark.parametrize("name", named_recipes())
def test_it_says_how_to_run_it_and_where_it_comes_from(name: str):
    head = "\n".join(head_comment(find_recipe(name)))
    assert f"hardneg recipe run {name}" in head and "Source: " in head and "Expected" in head
    assert len(head.splitlines()[0]) < 120


@NEEDS_PAPERS
def test_bm25_neg_is_the_model_that_star_begins_with_in_the_paper(keys: dict[tuple[str, str], dict[str, str]]):
    assert keys["star-passage", "paper"]["warm-up"] == keys["bm25-neg-passage", "paper"]["bm25-neg"]


COMES_TO = json.loads(Path(__file__).with_name("shipped_keys.json").read_text(encoding="utf-8"))
"""Of each recipe and preset the model, the outputs, and each stage's key, whatever the weights and the data are."""


_SINCE = ("adapter", "code", "encoder", "task")  # fields of a model that recipes were made without


@pytest.mark.parametrize("asked", COMES_TO)
def test_what_a_recipe_comes_to_stays(asked: str, monkeypatch: pytest.MonkeyPatch):
    """A key that changes here makes users' stores useless. Analyses and reports are made again anyway."""
    name, _, preset = asked.partition(":")
    if name not in presets_by_recipe():
        pytest.skip("pip install ./plugins/hardneg-papers")
    if (name, preset) in OUTSIDE and not importlib.util.find_spec(OUTSIDE[name, preset]):
        pytest.skip(f"{OUTSIDE[name, preset]} is not installed: pip install it from plugins/")
    monkeypatch.setattr(planning._Sources, "digest", lambda sources, find: "content")
    recipe = load_recipe(find_recipe(name), preset)
    steps = make_plan(recipe, []).steps
    keys = {stage: step.key[:10] for stage, step in steps.items() if step.verb not in ("analyze", "report")}
    said = {name: value for name, value in dataclasses.asdict(recipe.model).items() if name not in _SINCE or value}
    model, outputs = digest(said)[:10], dict(recipe.outputs)
    assert {"model": model, "outputs": outputs, "keys": keys} == COMES_TO[asked]
    # a model is handed out with an index of vectors, not with one of BM25
    assert "model" not in outputs or "index" not in outputs or recipe.view("").query_model(outputs["index"])


@NEEDS_PAPERS
def test_each_recipe_and_preset_is_looked_at():
    assert {f"{name}:{preset}" for name, preset in PRESETS} == {*COMES_TO}


def _keys_and_values(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield key, item
        yield from _keys_and_values(item)


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_file_is_plain_stages(name: str):
    """At most one `extends` of a name, no null, and nothing that stands for other stages."""
    text = shipped_recipes()[name].read_text(encoding="utf-8")
    assert not [token for token in yaml.scan(text) if isinstance(token, yaml.AnchorToken | yaml.AliasToken)]
    assert max(map(len, text.splitlines())) <= 120
    tree = yaml.safe_load(text)
    assert isinstance(tree.pop("extends", ""), str)
    found = list(_keys_and_values(tree))
    assert not {"for", "system", "defaults", "extends"} & {key for key, _ in found}
    assert None not in [value for _, value in found]


@NEEDS_PAPERS
@pytest.mark.parametrize("name", [name for name in named_recipes() if name not in shipped_recipes()])
def test_a_function_returns_plain_stages(name: str):
    source = find_recipe(name)
    assert isinstance(source, RecipeFunction)
    for preset in source.presets:
        tree = source.function(preset)
        assert json.loads(json.dumps(tree)) == tree and None not in [value for _, value in _keys_and_values(tree)]
        assert all("stage" in stage for stage in tree["stages"].values())


@NEEDS_PAPERS
def test_rocketqas_steps_are_those_of_the_paper_whatever_is_withheld():
    """20K and 5K, its Figure 4; ten passes of four rows a query with pseudo-labels; on NQ 30 over 58,880 queries."""
    paper = paper_presets()["rocketqa-table3"].stages
    steps = {name: paper[name].options.total_steps(502_939) for name in ("rocketqa-1", "rocketqa-3", "rocketqa-4")}
    assert steps == {"rocketqa-1": 20_000, "rocketqa-3": 5_000, "rocketqa-4": 4_912}
    assert paper["rocketqa-4"].options.total_steps(502_939 + 1_000_000) == 14_678
    beside = {name: paper[name].options for name in ("in-batch", "not-denoised")}
    assert [options.total_steps(502_939) for options in beside.values()] == [20_000, 5_000]
    assert {options.batch_size * options.accumulate for options in beside.values()} == {4096}
    questions = load_recipe(find_recipe("rocketqa-nq"), "paper").stages
    assert questions["rocketqa-3"].options.total_steps(58_880) == 58_880 * 30 // 1024
    assert questions["denoised-negatives"].miner.options["fill"] == "none"


LEARNS = ("train", "train-queries", "train-refreshed", "train-reranker", "train-reader")
PAPERS = [name for name, preset in PRESETS if preset == "paper"]


def _trainings(name: str) -> dict[str, Any]:
    if name not in paper_presets():
        pytest.skip("a package that it needs is not installed: pip install it from plugins/")
    return {stage: spec for stage, spec in paper_presets()[name].stages.items() if spec.stage in LEARNS}


@pytest.mark.parametrize("name", PAPERS)
def test_trainings_of_the_paper_preset_are_measured_on_the_way(name: str):
    for stage, spec in _trainings(name).items():
        watched = getattr(spec, "watch", None) is not None
        assert watched or (spec.validation_run and spec.options.evaluate_every), stage
        assert watched or (spec.validation.depth, spec.validation.split) == (50, "dev"), stage


@pytest.mark.parametrize("name", PAPERS)
def test_no_paper_preset_reports_queries_that_it_chose_by(name: str):
    if name not in paper_presets():
        pytest.skip("a package that it needs is not installed: pip install it from plugins/")
    stages: Any = paper_presets()[name].stages.values()
    validated = [spec for spec in stages if spec.stage in LEARNS and spec.validation_run]
    chose = {spec.validation.split for spec in validated if spec.options.keep_best}
    assert not chose & {spec.split for spec in stages if spec.stage == "evaluate"}


@NEEDS_PAPERS
def test_schedules_go_on_behind_the_step_that_the_authors_stopped_at():
    queries = 502_939
    ends = {
        ("star-passage", "star"): (50_000, 196_461),
        ("adore-star-passage", "adore-star"): (60_000, 94_302),
        ("ance-passage", "ance"): (600_000, 1_000_000),
        ("ance-warm-rand-neg-passage", "ance-warm-rand-neg"): (100_000, 1_000_000),
        ("ance-analyses", "ance-often"): (300_000, 1_000_000),
    }
    for (name, stage), (last, total) in ends.items():
        options = _trainings(name)[stage].options
        assert (options.last_step(queries), options.total_steps(queries)) == (last, total)
        assert not options.keep_best
    options = _trainings("star-passage")["star"].options
    left = schedule_factor(50_000, 196_461, options)
    assert left == pytest.approx(0.749, abs=1e-3)


@NEEDS_PAPERS
@pytest.mark.parametrize(
    ("name", "split", "metric"),
    [
        ("star-adore-trec-dl", "test", "ndcg@10"),
        ("ance-rates-passage", "dev", "mrr@10"),
        ("ance-rates-document", "test", "ndcg@10"),
    ],
)
def test_the_report_shows_the_queries_that_the_recipe_is_for(name: str, split: str, metric: str):
    stages = load_recipe(find_recipe(name), "paper").stages
    shown = stages[stages["report"].evaluation]
    assert (shown.split, shown.metrics[0]) == (split, metric) and len(shown.runs) >= 7
