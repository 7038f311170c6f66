"""The short forms of recipes, each beside what is written by hand."""

import re
from pathlib import Path

import pytest
from recipe.short_forms import HEAD, problems, stages, written
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipe.language import expand
from hardneg.recipe.load import load_recipe
from hardneg.recipe.yaml_load import find_recipe
from hardneg.records.errors import RecipeError

RECIPES = Path(__file__).parents[2] / "docs" / "recipes.md"
SHORT_FORMS = ("defaults", "system", "for")


EXAMPLES = re.findall(r"```yaml\n([^`]*)```\n\ncomes to\n\n```yaml\n([^`]*)```", RECIPES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_page_come_to_what_it_says(tmp_path, number):
    short, plain = EXAMPLES[number]
    assert stages(tmp_path, short) == written(plain)["stages"]


def test_the_page_has_an_example_of_each_short_form():
    assert len(EXAMPLES) == 4 and all(any(f"{key}:" in short for short, _ in EXAMPLES) for key in SHORT_FORMS)


def test_defaults_are_laid_under_each_stage_of_the_verb(tmp_path):
    text = """
defaults:
  search: {depth: 50}
  train: {validation: {split: dev, depth: 10}, options: {optimizer: lamb, max_steps: 5}}
stages:
  a: {stage: search, index: i}
  b: {stage: search, index: i, depth: 7}
  t: {stage: train, loss: nll, options: {max_steps: 9}}
  u: {stage: train, loss: nll, validation: null, options: {optimizer: null}}
  e: {stage: encode}
"""
    plain = """
a: {stage: search, index: i, depth: 50}
b: {stage: search, index: i, depth: 7}
t: {stage: train, loss: nll, validation: {split: dev, depth: 10}, options: {optimizer: lamb, max_steps: 9}}
u: {stage: train, loss: nll, options: {max_steps: 5}}
e: {stage: encode}
"""
    assert stages(tmp_path, text) == written(plain)


def test_a_plugin_of_another_name_takes_none_of_the_defaults_options(tmp_path):
    text = """
defaults: {train-queries: {loss: {name: lambda, cut: 200, temperature: 0.05}}, train: {loss: {temperature: 0.05}}}
stages:
  a: {stage: train-queries, index: i}
  b: {stage: train-queries, index: i, loss: {name: ranknet}}
  c: {stage: train-queries, index: i, loss: {cut: 10}}
  d: {stage: train, loss: {name: nll}}
  e: {stage: train, loss: hardest}
"""
    found = stages(tmp_path, text)
    assert [found[name]["loss"] for name in "abcde"] == [
        {"name": "lambda", "cut": 200, "temperature": 0.05},
        {"name": "ranknet"},
        {"name": "lambda", "cut": 10, "temperature": 0.05},
        {"name": "nll", "temperature": 0.05},
        "hardest",
    ]


def test_presets_and_settings_change_defaults_and_stages_go_before_them(tmp_path):
    text = """
defaults: {train: {options: {max_steps: 5, batch_size: 2}}}
stages: {t: {stage: train, loss: nll, options: {batch_size: 3}}}
presets:
  large: {defaults: {train: {options: {max_steps: 500, batch_size: 200}}}}
  own: {stages: {t: {options: {max_steps: null}}}}
"""
    assert stages(tmp_path, text)["t"]["options"] == {"max_steps": 5, "batch_size": 3}
    assert stages(tmp_path, text, "large")["t"]["options"] == {"max_steps": 500, "batch_size": 3}
    assert stages(tmp_path, text, "own")["t"]["options"] == {"batch_size": 3}
    more = ("defaults.train.options.max_steps=7", "stages.t.options.batch_size=1")
    assert stages(tmp_path, text, "large", more)["t"]["options"] == {"max_steps": 7, "batch_size": 1}


def test_a_null_that_removes_nothing_is_a_value(tmp_path):
    found = stages(tmp_path, "stages: {t: {stage: train, loss: nll, options: {clip_norm: null}}}")
    assert found["t"]["options"] == {"clip_norm": None}


LINE = "stages: {i: {stage: encode}, t: {stage: search, index: i}}\n"


@pytest.mark.parametrize(
    ("defaults", "told"),
    [
        ("{serch: {depth: 3}}", "defaults.serch: no stage 'serch'; did you mean 'search'"),
        ("{search: {dept: 3}}", "defaults.search.dept: no such option; did you mean 'depth'; it has: "),
        ("{search: {depth: many}}", "defaults.search.depth: must be a whole number (got 'many')"),
        ("{train: {options: {optimzer: lamb}}}", "defaults.train.options.optimzer: no such option; did you mean 'opt"),
        ("{search: deep}", "defaults.search: must be a mapping of options"),
        ("{search: {stage: mine}}", "defaults.search.stage: leave it out; the defaults are those of stage 'search'"),
        ("3", "defaults: must map a verb to options of its stages"),
    ],
)
def test_a_mistake_in_a_default_is_told_with_its_own_path(tmp_path, defaults, told):
    (only,) = problems(tmp_path, f"defaults: {defaults}\n{LINE}")
    assert only.replace("?", "").startswith(told.replace("?", "")), only


BASE = """
defaults: {train: {loss: {temperature: 0.05}, options: {max_steps: 3}}}
stages: {i: {stage: encode}, n: {stage: train, loss: nll, options: {negatives_per_query: 0}}}
"""


@pytest.mark.parametrize(
    ("top", "stage", "told"),
    [
        ("", "{stage: train, loss: nll, options: {negatives_per_query: 0}}", "options.max_steps"),
        ("", "{stage: train, loss: {name: nll}, options: {max_steps: 9, negatives_per_query: 0}}", "loss.temperature"),
        ("", "{stage: train, loss: nll, options: {max_steps: 9, negatives_per_query: 0}}", ""),
        ("", "{stage: train, loss: nll, options: {max_steps: null, negatives_per_query: 0}}", ""),
        ("defaults: {train: {options: {batch_size: 8}}}\n", "{stage: train, loss: nll}", ""),
        ("", "{stage: train, loss: nll, system: M}", ""),
    ],
)
def test_a_recipe_without_short_forms_is_told_what_its_stages_take_from_those_of_another(tmp_path, top, stage, told):
    (tmp_path / "base.yaml").write_text(HEAD + BASE)
    path = tmp_path / "child.yaml"
    path.write_text(f"extends: base.yaml\n{top}stages: {{m: {stage}}}\n")
    line = f"stages.m: takes {told} from the `defaults` of a recipe that this one extends; write your own, or null"
    assert [note[: len(line)] for note in expand(path, None, ()).notes] == ([line] if told else [])


def test_a_plugins_option_that_a_default_has_is_told_with_the_defaults_path(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + BASE)
    path = tmp_path / "child.yaml"
    stage = "{stage: train, loss: {name: triplet, margin: 0.1}, options: {negatives_per_query: 0}}"
    path.write_text(f"extends: base.yaml\nstages: {{m: {stage}}}\n")
    with pytest.raises(RecipeError, match=r"defaults\.train\.loss: temperature: triplet has no such option"):
        load_recipe(path)


def test_an_unknown_key_at_the_top_is_told_with_the_short_forms(tmp_path):
    (only,) = problems(tmp_path, f"fr: {{k: [a]}}\n{LINE}")
    assert only.startswith("fr: no such option; did you mean 'for'?; it has: title, ")
    assert only.endswith("extends, presets, defaults, for")


def test_a_mistake_of_several_stages_in_one_default_is_told_once(tmp_path):
    searches = "{i: {stage: encode}, a: {stage: search, index: i}, b: {stage: search, index: i}}"
    text = f"defaults: {{search: {{dept: 3}}}}\nstages: {searches}"
    (only,) = problems(tmp_path, text)
    assert only.startswith("defaults.search.dept: no such option")


def test_a_default_for_a_verb_that_a_recipe_has_no_stage_of_waits_for_those_that_extend_it(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + "defaults: {train: {options: {max_steps: 3}}}\n" + LINE)
    load_recipe(tmp_path / "base.yaml")
    path = tmp_path / "child.yaml"
    path.write_text("extends: base.yaml\nstages: {m: {stage: train, loss: nll, options: {negatives_per_query: 0}}}\n")
    assert load_recipe(path).tree["stages"]["m"]["options"] == {"negatives_per_query": 0, "max_steps": 3}


def test_what_show_prints_is_the_same_recipe(tmp_path):
    for preset in ("demo", "paper"):
        shown = CliRunner().invoke(app, ["recipe", "show", "adore-pq", "--preset", preset])
        assert "for:" not in shown.output and "defaults:" not in shown.output
        path = tmp_path / f"{preset}.yaml"
        path.write_text(shown.output, encoding="utf-8")
        assert load_recipe(path).stages == load_recipe(find_recipe("adore-pq"), preset).stages
    wrong = CliRunner().invoke(app, ["recipe", "show", "adore-pq", "--set", "stage=3", "--preset", "papre"])
    assert isinstance(wrong.exception, RecipeError) and "did you mean 'paper'" in str(wrong.exception)
