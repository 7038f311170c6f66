"""A function's signature says each argument once: its command has the same, and the stages of recipes too."""

import inspect
from pathlib import Path
from typing import get_args, get_origin

import pytest
from cli.commands import every_command
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.adaptor import flag, parameter
from hardneg.cli.main import app
from hardneg.functions.arguments import REQUIRED, Where, arguments_of
from hardneg.records import HardnegError, UsageError
from hardneg.registry import load_plugin

PACKAGE = Path(hn.__file__).parent
FUNCTIONS = {
    name: getattr(hn, name)
    for name, (home, _) in hn.type_checkers_imports("hardneg").items()
    if home.startswith("hardneg.functions.") and name not in ("analyze", "load_recipe", "start")
}
WORDS = {"index": "index build", "write_queries": "write-queries"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_command_has_what_the_function_has(name):
    function, commands = FUNCTIONS[name], {" ".join(words): command for words, command in every_command().items()}
    assert f"def {name}(" in inspect.getsource(function)
    options = {option.name: option for option in commands[WORDS.get(name, name)].params}
    for called, argument in arguments_of(function).items():
        assert argument.help.endswith("."), called
        if called in Where.__annotations__:
            continue
        option = options[called]
        assert argument.operand or flag(argument) == option.opts[0]
        assert option.help == argument.help
        assert option.required == (argument.default is REQUIRED)
        if not option.required and get_origin(argument.cli) is not dict and not option.multiple:
            assert option.default == argument.default
        if argument.least is not None:
            assert parameter(argument).annotation.__metadata__[0].min == argument.least


STAGES = {
    "encode": "encode",
    "evaluate": "evaluate",
    "fuse": "fuse",
    "index": "index",
    "mine": "mine",
    "rerank": "rerank",
    "search": "search",
    "train": "mine",
    "write_queries": "write-queries",
}
"""The stage whose fields a function's arguments are."""
OTHER_NAMES = {
    ("fuse", "grid"): "fuse.tuning.grid",
    ("fuse", "metric"): "fuse.tuning.metric",
    ("fuse", "relevance_level"): "fuse.tuning.relevance_level",
    ("mine", "depth"): "search.depth",
    ("rerank", "reranker"): "rerank.plugin",
    ("train", "depth"): "search.depth",
    ("train", "loss"): "train.loss",
    ("write_queries", "first_k"): "round-trip.depth",
    ("write_queries", "reranker"): "rerank.plugin",
}
"""Arguments that are fields of other stages, or have other names there."""
OTHERS = {
    *(("encode", "model"), ("search", "candidates"), ("search", "index"), ("search", "model")),
    *(("search", "query_ids"), ("search", "query_vectors"), ("train", "options"), ("rerank", "run")),
    *(("fuse", "runs"), ("evaluate", "runs"), ("evaluate", "metrics"), ("evaluate", "baselines"), ("index", "vectors")),
}
"""Arguments of other meaning than the fields of their names."""
OWN_DEFAULTS = {
    ("index", "backend"),  # what can be built without a model
    ("mine", "depth"),  # lists of what mines are longer than what is measured
    ("mine", "miner"),  # a stage has to name one
    ("train", "depth"),
    ("train", "loss"),  # a stage has to name one
    ("train", "miner"),
}
"""The arguments that have another default than their stage."""


def test_arguments_are_as_the_stages_of_recipes_have_them():
    checked, own_defaults = 0, set()
    for name, function in FUNCTIONS.items():
        for called, argument in arguments_of(function).items():
            if name not in STAGES and (name, called) not in OTHER_NAMES:
                continue
            path = OTHER_NAMES.get((name, called), f"{STAGES.get(name)}.{called}")
            if called in {*Where.__annotations__, "dataset"} or (name, called) in OTHERS:
                continue
            try:
                verb, *names = path.split(".")
                held = load_plugin("stages", verb).model_fields
                for part in names[:-1]:
                    held = next(
                        of.model_fields for of in get_args(held[part].annotation) if hasattr(of, "model_fields")
                    )
                field = held[names[-1]]
            except (HardnegError, KeyError):
                continue
            checked += 1
            assert argument.help == field.description, path
            wanted = REQUIRED if field.is_required() else field.get_default(call_default_factory=True)
            optional = (name, called) == ("write_queries", "reranker") or (name, called) == ("rerank", "reranker")
            if argument.default != wanted and not optional:
                own_defaults.add((name, called))
    assert checked > 30
    assert own_defaults == OWN_DEFAULTS


def test_an_error_calls_an_argument_as_its_caller_does(tmp_path):
    runs = {"one": {"q": {"d": 1.0}}, "two": {"q": {"e": 1.0}}}
    with pytest.raises(UsageError, match=r"^fuse: tune_runs needs qrels, the judgements"):
        hn.fuse(runs, tune_runs=runs, store=tmp_path / "store")
    for name in ("one", "two"):
        (tmp_path / name).write_text("q Q0 d 1 1 x\n")
    given = [f"--run={tmp_path / name}" for name in runs]
    tuning = [f"--tune-run={tmp_path / name}" for name in runs]
    told = CliRunner().invoke(app, ["fuse", *given, *tuning, "--output", str(tmp_path / "x.trec.gz")])
    assert str(told.exception) == "fuse: --tune-run needs --qrels, the judgements of its queries"


COLLECTION = {"corpus": {"d1": "a river", "d2": "a hill"}, "queries": {"q1": "river"}, "qrels": {"q1": {"d1": 1}}}


@pytest.mark.parametrize(
    ("call", "command", "names"),
    [
        (
            lambda: hn.rerank(COLLECTION, {"q1": {"d1": 1.0}}, "nope"),
            ["rerank", "--reranker=nope", "--run=README.md", "--output=x.trec.gz"],
            ("reranker: unknown reranker", "--reranker: unknown reranker"),
        ),
        (
            lambda: hn.mine(COLLECTION, "packaged:wordllama", filters=["nope"]),
            ["mine", "--model=packaged:wordllama", "--filter=nope", "--output=x.parquet"],
            ("filters.0: unknown filter", "--filter.0: unknown filter"),
        ),
        (
            lambda: hn.encode(COLLECTION, "packaged:wordllama", settings=["x"]),
            ["encode", "--model=packaged:wordllama", "--set=x", "--output=x"],
            ("settings x: must have the form", "--set x: must have the form"),
        ),
        (
            lambda: hn.train(COLLECTION, "packaged:wordllama", options={"nope": 1}),
            ["train", "--model=packaged:wordllama", "--train-option=nope=1", "--output=x"],
            ("options.nope: no such option", "--train-option.nope: no such option"),
        ),
        (
            lambda: hn.mine(COLLECTION, "packaged:wordllama", settings=["stages.negatives.filters=nope"]),
            ["mine", "--model=packaged:wordllama", "--set=stages.negatives.filters=nope", "--output=x.parquet"],
            ("stages.negatives.filters", "stages.negatives.filters"),
        ),
    ],
)
def test_a_mistake_in_the_recipe_of_a_function_names_the_argument_and_the_flag(call, command, names):
    """One of a setting keeps the path that was written."""
    with pytest.raises(UsageError) as raised:
        call()
    told = CliRunner().invoke(app, [command[0], "--dataset=pydocs", *command[1:]])
    for error, name in zip((raised.value, told.exception), names, strict=True):
        assert str(error).splitlines()[1].strip().startswith(name), str(error)
