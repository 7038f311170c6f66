"""A run says what each step is for, and a demo what to do next."""

import shlex
import sys
from pathlib import Path

from command_line import call

from hardneg.cli import recipe as run_progress
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.recipe.yaml_load import find_recipe, shipped_recipes
from hardneg.verbs.search import Search
from hardneg.verbs.shared.stage_spec import StageSpec


def test_every_step_of_the_shipped_recipes_has_a_purpose():
    for name in ("star-passage", "adore-star-passage", "ance-passage", "rocketqa-passage", "cort-electra-passage"):
        steps = make_plan(load_recipe(find_recipe(name)), []).steps.values()
        assert [step.name for step in steps if not step.spec.why()] == []


def test_a_search_is_for_what_its_split_is_for_and_a_verb_that_says_nothing_for_nothing():
    searches = [Search(stage="search", index="i", split=split).why() for split in ("train", "of-mine")]
    assert searches == ["rank the passages for the training queries, to mine from", "rank the passages for the queries"]
    assert StageSpec().why() == ""


def test_the_next_commands_are_right(monkeypatch, tmp_path):
    recipe = load_recipe(find_recipe("star-passage"))
    monkeypatch.setattr(sys, "argv", ["hardneg"])
    commands = dict(run_progress.next_commands(recipe, Path("runs/star passage")))
    assert len(commands) == 3
    assert commands["the report"] == "python3 -m webbrowser 'runs/star passage/report.html'"
    for what in ("one thing changed", "a collection of your own"):
        _, *words = shlex.split(commands[what].replace("path/to/folder", str(tmp_path)))
        words = words[: words.index("--output")] if "--output" in words else words
        planned = call("recipe", "plan", *words[2:], "--store", tmp_path)
        assert "star" in planned.output and "Error" not in planned.output, planned.output


def test_the_next_commands_set_what_was_set(tmp_path):
    recipe = load_recipe(find_recipe("star-passage"))
    commands = dict(run_progress.next_commands(recipe, tmp_path, ["dataset=documents:my docs", "seed=2"]))
    assert [*commands] == ["the report", "one thing changed"]
    assert " --set 'dataset=documents:my docs' --set seed=2 --set stages." in commands["one thing changed"]


def test_the_next_commands_name_stages_as_they_are_written_where_they_are_made_once_a_seed(tmp_path):
    commands = dict(
        run_progress.next_commands(load_recipe(find_recipe("star-static"), settings=["seeds=[1, 2]"]), tmp_path)
    )
    assert commands["one thing changed"].endswith("--set stages.inbatch-neg.options.max_steps=120")


def test_only_demos_of_shipped_recipes_end_with_them(tmp_path):
    assert not list(run_progress.next_commands(load_recipe(find_recipe("star-passage"), "small"), tmp_path))
    own = tmp_path / "star-passage.yaml"
    own.write_text(shipped_recipes()["star-passage"].read_text())
    assert not list(run_progress.next_commands(load_recipe(own, "demo"), tmp_path))


def test_the_program_is_named_as_it_was_called(monkeypatch):
    monkeypatch.setattr(sys, "argv", [".venv/bin/hardneg"])
    monkeypatch.setattr(run_progress.shutil, "which", lambda name: None)
    assert run_progress._program() == ".venv/bin/hardneg"
    monkeypatch.setattr(run_progress.shutil, "which", lambda name: "/usr/bin/hardneg")
    assert run_progress._program() == "hardneg"
