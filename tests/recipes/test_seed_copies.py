"""`seeds:` of a recipe: what is made once a seed, under which keys, and what is printed about it."""

import json

import pytest
from recipes.recipes import recipe_in, small_collection, small_tree
from tiny import tiny_encoder

from hardneg.cli.planned_work import _content, plan_table
from hardneg.recipes import Options, Watcher, estimate, execute, make_plan
from hardneg.records import RecipeError, UsageError
from hardneg.store import Store

SEEDED = {"star", "star-index", "star-test"}
ONCE = ["dataset", "start-index", "start-test", "start-train", "static"]


@pytest.fixture
def tree(tmp_path):
    return small_tree(small_collection(tmp_path / "data"), tiny_encoder(tmp_path / "model"))


def recipe(tmp_path, tree, *settings):
    return recipe_in(tmp_path, tree, *settings)


def keys(tmp_path, tree, *settings):
    return make_plan(recipe(tmp_path, tree, *settings)).keys


def problems(tmp_path, tree, *settings):
    with pytest.raises(RecipeError) as raised:
        recipe(tmp_path, tree, *settings)
    return list(raised.value.problems)


def test_trainings_and_what_depends_on_them_are_made_once_a_seed(tmp_path, tree):
    found = recipe(tmp_path, tree, "seeds=[3,5]")
    copies = [f"{name}-seed-{seed}" for name in ("star", "star-index", "star-test") for seed in (3, 5)]
    assert list(found.stages) == [*ONCE, *copies, "scores", "report"]
    assert found.stages["star-seed-3"].options.seed == 3 and found.stages["star-seed-5"].options.seed == 5
    assert found.stages["star-test-seed-5"].index == "star-index-seed-5"
    assert found.stages["static"].seed == 42
    copies = {3: "star-test-seed-3", 5: "star-test-seed-5"}
    assert found.stages["scores"].runs == {"start": "start-test", "STAR": copies}
    assert found.stages["report"].training == {"STAR": {3: "star-seed-3", 5: "star-seed-5"}}
    assert found.outputs == {"model": "star-seed-3", "index": "star-index-seed-3"}
    assert found.plugins["star-seed-5", "loss"] == found.plugins["star-seed-3", "loss"]


def test_a_copy_has_the_key_of_the_same_seed_written_by_hand(tmp_path, tree):
    seeded = keys(tmp_path, tree, "seeds=[7,8]")
    by_hand = keys(tmp_path, tree, "stages.star.options.seed=7")
    assert {name: seeded[f"{name}-seed-7"] for name in SEEDED} == {name: by_hand[name] for name in SEEDED}
    assert {name: seeded[name] for name in ONCE} == {name: by_hand[name] for name in ONCE}
    assert seeded["scores"] != by_hand["scores"]


def test_another_seed_adds_its_own_steps_and_makes_the_tables_again(tmp_path, tree):
    two, three = keys(tmp_path, tree, "seeds=[1,2]"), keys(tmp_path, tree, "seeds=[1,2,3]")
    changed = {name for name in three if three[name] != two.get(name)}
    assert changed == {*(f"{name}-seed-3" for name in SEEDED), "scores", "report"}


def test_a_recipe_may_say_which_stages_have_the_seeds(tmp_path, tree):
    found = recipe(tmp_path, tree, "seeds={values: [1, 2], stages: [static]}")
    assert [found.stages[f"static-seed-{seed}"].seed for seed in (1, 2)] == [1, 2]
    assert [found.stages[f"star-seed-{seed}"].options.seed for seed in (1, 2)] == [42, 42]


def test_rows_share_their_seeds_where_one_training_decides_both(tmp_path, tree):
    stages = tree["stages"]
    stages["other"] = {**stages["star"], "loss": "nll"}
    stages["further"] = {**stages["star"], "model": "star"}
    for name in ("other", "further"):
        stages[f"{name}-index"] = {"stage": "encode", "model": name}
        stages[f"{name}-test"] = {"stage": "search", "index": f"{name}-index", "split": "test", "depth": 20}
        stages["scores"]["runs"][name] = f"{name}-test"
    assert recipe(tmp_path, tree, "seeds=[1,2]").stages["scores"].shared_seeds == (("STAR", "further"),)


def test_names_of_stages_stand_for_all_their_seeds(tmp_path, tree):
    plan = make_plan(recipe(tmp_path, tree, "seeds=[1,2]"))
    assert [step.name for step in plan.until("star")][-2:] == ["star-seed-1", "star-seed-2"]
    assert len(plan.until("star-test-seed-2")) == len(plan.until("star-test")) - 3
    copies = {f"star-{end}-seed-{seed}" for end in ("index", "test") for seed in (1, 2)}
    assert {step.name for step in plan.dependents("star-index")} == {*copies, "scores", "report"}
    with pytest.raises(UsageError, match="did you mean 'star'"):
        plan.until("starr")


def test_the_plan_has_one_line_for_all_seeds_with_their_sum(tmp_path, tree, capsys):
    plan, store = make_plan(recipe(tmp_path, tree, "seeds=[1,2,3]")), Store(tmp_path / "store")
    rows = estimate(plan, store)
    plan_table(rows, plan.recipe.copies)
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if line.startswith("star x 3 seeds")]
    assert (
        "12 steps" in line and "3 keys" in line and len([line for line in lines if line.startswith("star-test")]) == 1
    )
    assert f"to run: {len(rows)} of {len(rows)} steps" in lines[-1]
    told = _content(plan, rows)["steps"]
    assert [(row["step"], row["of"], row["seed"]) for row in told if row.get("of") == "star"] == [
        (f"star-seed-{seed}", "star", seed) for seed in (1, 2, 3)
    ]
    assert "of" not in told[0]


def test_mistakes_are_told_in_a_line_each(tmp_path, tree):
    assert problems(tmp_path, tree, "seeds=[1,1]") == ["seeds.values: 1 is listed twice (got [1, 1])"]
    [line] = problems(tmp_path, tree, "seeds=[1,2]", "stages.star.options.seed=9")
    assert line.startswith("stages.star.options.seed: also set by `seeds`")
    assert problems(tmp_path, tree, "seeds={values: [1, 2], stages: [stra, start-test]}") == [
        "seeds.stages.0: no stage 'stra'; did you mean 'star'?",
        "seeds.stages.1: 'start-test' (stage search) has no seed; remove it",
    ]
    assert problems(tmp_path, tree, "seeds=3") == ["seeds: must be a list of seeds, such as [1, 2, 3] (got 3)"]
    tree["stages"]["star-seed-1"] = {"stage": "encode"}
    told = "its copy for a seed would be named 'star-seed-1', which is already taken; rename the stage"
    assert problems(tmp_path, tree, "seeds=[1,2]") == [f"stages.star: {told}"]
    tree["stages"] = {"one": {"stage": "encode"}}
    assert problems(tmp_path, tree, "seeds=[1,2]") == ["seeds: no stage of this recipe trains; remove `seeds`"]


def test_a_row_by_hand_names_two_seeds_or_more(tmp_path, tree):
    runs = tree["stages"]["scores"]["runs"]
    runs["STAR"] = {1: "star-test", 2: "start-test"}
    assert recipe(tmp_path, tree).stages["scores"].runs["STAR"] == {1: "star-test", 2: "start-test"}
    assert problems(tmp_path, tree, "seeds=[1,2]") == [
        "stages.scores.runs.STAR.1: cannot refer to 'star-test', which `seeds` copies; use one of its copies"
    ]
    runs["STAR"] = {1: "star-test"}
    [line] = problems(tmp_path, tree)
    assert line.startswith("stages.scores.runs.STAR: must be the name of a stage, or map at least two seeds to stages")


@pytest.mark.slow
def test_a_run_takes_what_other_seeds_have_made_and_makes_the_rest(tmp_path, tree):
    store, out = Store(tmp_path / "store"), {}
    for settings in ("seeds=[1,2]", "seeds=[1,2,3]"):
        plan = make_plan(recipe(tmp_path, tree, settings))
        out[settings] = execute(plan, store, Options(), Watcher())
    assert out["seeds=[1,2,3]"].ran == ("star-seed-3", "star-index-seed-3", "star-test-seed-3", "scores", "report")
    made = out["seeds=[1,2,3]"].artifacts
    per_query = json.loads((made["scores"].path / "metrics.json").read_text())["per_query"]
    single = {}
    for seed in (1, 2, 3):
        plan = make_plan(recipe(tmp_path, tree, f"stages.star.options.seed={seed}"))
        scores = execute(plan, store, Options(), Watcher()).artifacts["scores"].path
        single[seed] = json.loads((scores / "metrics.json").read_text())["per_query"]["STAR"]["mrr@10"]
    for query_id, value in per_query["STAR"]["mrr@10"].items():
        assert value == pytest.approx(sum(scores[query_id] for scores in single.values()) / 3)
    assert "STAR (mean of 3 seeds)" in (made["report"].path / "report.md").read_text()
