"""A line says each argument once: its command and its function have what the verbs' fields say."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_origin

import pytest
from cli.commands import every_command
from typer.testing import CliRunner

import hardneg as hn
from hardneg.api.argument_values import verb_field
from hardneg.cli.line_options import parameter
from hardneg.cli.main import app
from hardneg.cli.options import flag
from hardneg.lines import stub
from hardneg.lines.base import REQUIRED, Of
from hardneg.lines.functions import function_of, signature
from hardneg.lines.installed import line_of, line_targets
from hardneg.records.errors import UsageError

PACKAGE = Path(hn.__file__).parent
LINES = {name: line_of(name) for name in line_targets()}
WORDS = {"index": "index build"}
LINE_FILES = sorted((PACKAGE / "lines").glob("*.py"))


@pytest.mark.parametrize("name", LINES)
def test_the_command_and_the_function_have_what_the_fields_say(name):
    line, command = LINES[name], {" ".join(words): command for words, command in every_command().items()}
    options = {option.name: option for option in command[WORDS.get(name, name)].params}
    asked, fields = signature(line).parameters, {each.called: each for each in line.arguments if isinstance(each, Of)}
    for called, argument in line.resolved().items():
        assert argument.help.endswith("."), called
        if of := fields.get(called):
            info = verb_field(of.path)
            assert argument.help == info.description
            if not (of.required or of.default is not None or info.is_required()):
                assert argument.default == info.get_default(call_default_factory=True)
        if "function" in argument.shown_in:
            missing = inspect.Parameter.empty if argument.default is REQUIRED else argument.default
            assert asked[called].default == (None if argument.of_dataset else missing)
        if "command" in argument.shown_in:
            option = options[called]
            assert argument.operand or flag(argument) == option.opts[0]
            assert option.help == argument.help
            assert option.required == (argument.default is REQUIRED)
            if not option.required and get_origin(argument.form) is not dict and not option.multiple:
                assert option.default == argument.default
            if argument.least is not None:
                assert parameter(argument).annotation.__metadata__[0].min == argument.least


def test_the_stub_is_what_the_lines_make():
    assert stub.PATH.read_text("utf-8") == stub.text(), "run `python -m hardneg.lines.stub`"


@pytest.mark.parametrize("name", LINES)
def test_an_editor_sees_every_argument(name):
    function = function_of(LINES[name])
    parameters = inspect.signature(function).parameters.values()
    assert not [each for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    assert all(f"\n    {each.name}: " in inspect.getdoc(function) for each in parameters)


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


def test_a_default_stands_in_one_place():
    """What several verbs, commands and functions share is said once; a recipe's demo may say otherwise."""
    sources = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    said = {
        "seed": r"\bseed\b.*\b42\b|\bSEED = ",
        "the depth to mine from": r"\b210\b(?!\d|9)",
        "constant": r"(?i:constant).*\b60\b",
        "also_qrels": r"\balso_qrels: ",
    }
    for what, form in said.items():
        lines = [f"{path.name}: {line.strip()}" for path, text in sources.items() for line in text.splitlines()]
        assert len([line for line in lines if re.search(form, line.partition(": ")[2])]) == 1, what


def own_defaults(path: Path, tree: ast.Module) -> Iterator[str]:
    """Where a line states another default than its verb's as a number or a word, not by the name of a constant."""
    fields = {name for name, each in vars(import_module(f"hardneg.lines.{path.stem}")).items() if isinstance(each, Of)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and any(getattr(key, "value", "") == "default" for key in node.keys):
            yield f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Of", "replace"):
            of_field = node.func.id == "Of" or getattr(node.args[0], "id", "") in fields
            stated = [each.value for each in node.keywords if each.arg == "default"]
            if of_field and not all(isinstance(value, ast.Name) for value in stated):
                yield f"{path.name}:{node.lineno}"


def test_a_lines_own_default_has_a_name():
    """A field's default is its verb's; where a line has another, a constant says it, which stands once."""
    found = [line for path in LINE_FILES for line in own_defaults(path, ast.parse(path.read_text("utf-8")))]
    assert found == []
    again = ('Of("search.depth", default=50)', "replace(LISTED, default=50)", 'Of("x", **{"default": 50})')
    for stated in again:
        assert [*own_defaults(PACKAGE / "lines" / "mine.py", ast.parse(stated))] == ["mine.py:1"], stated
    assert [*own_defaults(PACKAGE / "lines" / "mine.py", ast.parse('Of("search.depth", default=DEPTH)'))] == []


OWN_DEFAULTS = {
    "evaluate.equivalence_margin": "MARGIN",  # of the bench's protocol
    "index.backend": "BM25",  # what can be built without a model
    "mine.miner": "MINER",  # a stage has to name one
    "search.depth": "MINED_DEPTH",  # lists of what mines are longer than what is measured
    "train.loss": "LOSS",  # a stage has to name one
}
"""The fields for which a line has another default than their verb, and its constant."""


def test_lines_with_other_defaults_than_their_verbs_are_listed():
    stated = {}
    for node in (node for path in LINE_FILES for node in ast.walk(ast.parse(path.read_text("utf-8")))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Of":
            own = [each.value for each in node.keywords if each.arg == "default"]
            stated |= {ast.literal_eval(node.args[0]): ast.unparse(value) for value in own}
    assert stated == OWN_DEFAULTS


def test_a_name_that_means_two_things_in_a_command_is_refused(tmp_path):
    given = ["mine", "--dataset", "pydocs", "--model", "m", "--output", str(tmp_path / "x.parquet")]
    told = CliRunner().invoke(app, [*given, "--depth", "100", "--option", "depth=50"])
    say = "say miner.depth=50 for that of the miner, or --depth 50"
    assert str(told.exception) == f"--option depth: means two things here: {say}"
    told = CliRunner().invoke(app, [*given, "--option", "loss.depth=50"])
    assert "names no plugin of this command; it has: miner" in str(told.exception)


@pytest.mark.parametrize(
    ("command", "output", "plugin"), [("search", "x.trec.gz", "--backend"), ("recommend", "x.yaml", "--reranker")]
)
def test_options_of_a_plugin_that_is_not_named_are_refused(command, output, plugin):
    told = CliRunner().invoke(app, [command, "--dataset=pydocs", "--option=k1=1", f"--output={output}"])
    assert str(told.exception) == f"--option k1: is an option of {plugin}, which is missing"


COLLECTION = {"corpus": {"d1": "a river", "d2": "a hill"}, "queries": {"q1": "river"}, "qrels": {"q1": {"d1": 1}}}


@pytest.mark.parametrize(
    ("call", "command", "names"),
    [
        (
            lambda: hn.rerank(COLLECTION, {"q1": {"d1": 1.0}}, "nope"),
            ["rerank", "--reranker=nope", "--run=README.md", "--output=x.trec.gz"],
            ("reranker: no rerankers plugin", "--reranker: no rerankers plugin"),
        ),
        (
            lambda: hn.mine(COLLECTION, "packaged:wordllama", filters=["nope"]),
            ["mine", "--model=packaged:wordllama", "--filter=nope", "--output=x.parquet"],
            ("filters.0: no filters plugin", "--filter.0: no filters plugin"),
        ),
        (
            lambda: hn.encode(COLLECTION, "packaged:wordllama", settings=["x"]),
            ["encode", "--model=packaged:wordllama", "--set=x", "--output=x"],
            ("settings x: must be of the form", "--set x: must be of the form"),
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
def test_a_mistake_in_the_recipe_of_a_line_names_the_argument_and_the_flag(call, command, names):
    """One of a setting keeps the path that was written."""
    with pytest.raises(UsageError) as raised:
        call()
    told = CliRunner().invoke(app, [command[0], "--dataset=pydocs", *command[1:]])
    for error, name in zip((raised.value, told.exception), names, strict=True):
        assert str(error).splitlines()[1].strip().startswith(name), str(error)


def test_a_line_of_another_package_is_a_command_and_a_function(tmp_path, monkeypatch):
    (tmp_path / "outside_line.py").write_text(OUTSIDE)
    installed = tmp_path / "outside_line-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-line\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[hardneg.lines]\ncopy-run = outside_line:CopyLine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "run.txt").write_text("q Q0 d 1 1 x\n")
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert "copy-run" in told and "Copy a run, cut at a depth." in told
    given = ["copy-run", "--run", str(tmp_path / "run.txt"), "--store", str(tmp_path / "store")]
    done = CliRunner().invoke(app, [*given, "--depth", "1", "--output", str(tmp_path / "copy.trec.gz")])
    assert done.exit_code == 0, done.exception
    assert done.stdout == f"{tmp_path / 'copy.trec.gz'}: 1 query\n"
    function = hn.copy_run
    assert function(tmp_path / "run.txt", depth=1, store=tmp_path / "store")["q"].doc_ids == ["d"]
    with pytest.raises(UsageError, match="depth: must be greater than 0"):
        function(tmp_path / "run.txt", depth=0)


OUTSIDE = '''
from hardneg.lines.base import Job, Line, Of
from hardneg.lines.shared_arguments import RUN


class CopyLine(Line):
    """Copy a run, cut at a depth.

    Example: hardneg copy-run --run run.trec.gz --output copy.trec.gz
    """

    name = "copy-run"
    returns = "RankedRun"
    writes = "run"
    shows = ("store",)
    counts = {"queries": ("query", "queries")}
    arguments = (RUN, Of("search.depth"))

    def job(self, given, place):
        return Job(None, lambda plan, place: copied(given, place), [])


def copied(given, place):
    from hardneg.api.content_store import keep_content
    from hardneg.api.run_argument import run_file
    from hardneg.api.results import RankedRun
    from hardneg.formats.runs import read_run, write_run
    from hardneg.records.types import RankedList

    lists, end = read_run(run_file(given.run, place.store)), given.depth
    cut = [(name, RankedList(one.doc_ids[:end], one.scores[:end])) for name, one in lists.items()]
    made = keep_content(place.store, "run", lambda folder: write_run(folder / "run.trec.gz", cut))
    return RankedRun("copy", made.key, made.path / "run.trec.gz", {"queries": len(cut)}, place.store, None)
'''
