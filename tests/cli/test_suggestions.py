"""Help with examples, suggestions for misspelt names, and commands of packages that are not installed."""

import inspect
import re
import shlex
from importlib.metadata import EntryPoints

import pytest
from cli.commands import every_command
from command_line import call, hardneg

import hardneg as hn
from hardneg import registry
from hardneg.cli import main
from hardneg.records import MissingDependency, RecipeError, UsageError, suggestion
from hardneg.registry import OUTSIDE


def refused(line):
    result = call(line)
    assert isinstance(result.exception, (UsageError, RecipeError)), result.output
    assert result.stdout == ""
    return str(result.exception)


def test_a_misspelt_recipe_gets_the_nearest():
    told = refused("recipe run star-pasage --device cpu")
    assert "did you mean 'star-passage'?; see `hardneg recipe list`, or give a path" in told


def test_all_misspelt_stages_of_a_run_are_told_at_once():
    told = refused("recipe run star-passage --until star-tst --force bm52 --force star")
    assert "--until star-tst: no step 'star-tst'; did you mean 'star-test'" in told
    assert "--force bm52: no step 'bm52'; did you mean 'bm25'" in told and "--force star:" not in told


def test_a_misspelt_stage_or_option_of_a_setting_gets_the_nearest_and_is_told_once():
    told = refused("recipe plan star-passage --set stages.stra.options.epochs=2")
    assert "stages.stra.stage: missing; did you mean 'star'" in told
    told = refused("recipe plan star-passage --set stages.star.options.lr=1e-3")
    assert "stages.star.options.lr: no such option; did you mean 'learning_rate'?" in told and "outputs" not in told


@pytest.mark.parametrize("kind", ["loss", "losses"])
def test_a_kind_of_plugin_is_named_in_singular_or_plural(kind, tmp_path):
    for words in (f"list {kind}", f"show {kind} nll", f"new {kind} mine -o {tmp_path / kind}"):
        hardneg(f"plugins {words}")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("lr", ["epochs", "learning_rate"], "learning_rate"),
        ("MNRL", ["bce", "infonce"], "infonce"),
        ("num_negatives", ["dataset", "miner"], "miner"),
        ("per_device_train_batch_size", ["batch_size"], "batch_size"),
    ],
)
def test_words_of_other_libraries_are_known(word, known, meant):
    assert suggestion(word, known) == f"; did you mean {meant!r}?"
    assert suggestion(word, ["zzz"]) == ""


COMMANDS = every_command()


def examples(words):
    lines = inspect.getdoc(inspect.unwrap(COMMANDS[words].callback))
    return [shlex.split(each) for each in re.findall(r"^Example: (.+?)(?: > \S+)?$", lines, re.MULTILINE)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_help_has_an_example_that_parses(words):
    found = examples(words)
    assert found and f"Example: hardneg {' '.join(words)}" in hardneg(*words, "--help").output
    for program, *arguments in found:
        assert program == "hardneg" and tuple(arguments[: len(words)]) == words
        context = COMMANDS[words].make_context(" ".join(words), arguments[len(words) :])
        assert context.params  # read, callbacks included, and not run


@pytest.mark.parametrize("name", ["browse", "bench", "data fetch", "recipe verify"])
def test_a_command_says_which_package_to_install(name, monkeypatch):
    package = OUTSIDE["apps", name]
    group, _, last = name.rpartition(" ")
    assert f" {last} " in call(f"{group} --help").stdout
    monkeypatch.setattr(main, "entry_points", lambda kind: EntryPoints(()))
    monkeypatch.setattr(registry, "entry_points", lambda kind: EntryPoints(()))
    for words in ("FOLDER --export page.html", "--help"):
        told = call(f"{name} {words}").exception
        assert isinstance(told, MissingDependency)
        wanted = f"in package {package}, which is not installed; run pip install ./plugins/{package} in a checkout"
        assert str(told) == f"the command {name!r} is {wanted} of hardneg"
    assert "From installed packages" not in call(f"{group} --help").stdout


def test_a_mistyped_command_is_told_with_its_like_of_packages_too():
    for typed, meant in (("recomend", "recommend"), ("serach", "search")):
        assert f"No such command '{typed}'. Did you mean '{meant}'?" in call(typed).stderr


def test_a_function_says_which_package_to_install(monkeypatch):
    monkeypatch.setitem(hn._APART, "browse", "hardneg-not-there")
    with pytest.raises(MissingDependency, match=r"browse is not installed; run pip install ./plugins/hardneg-not-t"):
        hn.browse  # noqa: B018
    assert "browse" not in dir(hn) and "mine" in dir(hn)
