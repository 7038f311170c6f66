"""`hardneg recipe`: list, show, plan and run recipes."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import aligned, measured_tables, say, say_answer, stderr_console, stdout_console
from hardneg.cli.options import DEVICE, ENGINE, ENGINE_OPTION, JSON, OVERWRITE, STORE, open_store, output
from hardneg.cli.packages import PackageGroup
from hardneg.cli.planned_work import configured, free_bytes, run_plan, store_outputs, together
from hardneg.cli.recipe_plan import NAME, PRESET, SET, check_stages, headline, plan, planned, run_outputs
from hardneg.records.errors import HardnegError
from hardneg.records.layout import METRICS
from hardneg.records.wording import counted, size
from hardneg.runtime.distributed import world
from hardneg.store.artifacts import Artifact, Store
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.recipe.execute import Options
    from hardneg.recipe.load import Recipe
    from hardneg.recipe.needs import Need
    from hardneg.recipe.plan import Plan

app = typer.Typer(
    cls=PackageGroup, help="List, plan, run and verify recipes, pipelines to a tested result.", no_args_is_help=True
)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the recipes: those that come with hardneg, then those of installed packages.

    Example: hardneg recipe list
    """
    from hardneg.recipe.yaml_load import find_recipe, head_comment, named_recipes

    recipes = {name: find_recipe(name) for name in named_recipes()}
    summary = {name: next(iter(head_comment(source)), "") for name, source in recipes.items()}
    rows = [{"name": name, "about": summary[name], "path": str(source)} for name, source in recipes.items()]
    say_answer(rows, aligned(summary.items()), as_json)


@app.command()
def show(name: str = NAME, preset: str | None = PRESET, settings: list[str] = SET) -> None:
    """Print a recipe; save it to a file, change it, and run it by its path.

    A file that stands alone is printed as it is, other recipes as the plain stages of a preset.

    Example: hardneg recipe show star-passage --preset paper > mine.yaml
    """
    from hardneg.recipe.language import plain_text
    from hardneg.recipe.yaml_load import find_recipe

    say(plain_text(find_recipe(name), preset, settings), nl=False)


app.command()(plan)


@app.command()
def runs(
    folder: Path = typer.Argument(..., help="The run folder of a finished recipe."),
    output: Path = output("The folder to write: a folder for each run.", "submissions"),
    overwrite: bool = OVERWRITE,
) -> None:
    """Write each run with its ir_metadata, as TIRA takes them: NAME/run.txt.gz and NAME/ir-metadata.yml.

    Example: hardneg recipe runs runs/star-passage-demo --output submissions
    """
    from hardneg.recipe.run_folder import export_runs

    outputs = store_outputs("recipe runs", [Target(output, folder=True)], [folder], overwrite)
    outputs.check()
    with outputs.laid_out():
        names = export_runs(folder, output)
    say(f"{output}: {counted(len(names), 'run')}: {', '.join(names)}")


@app.command()
def check(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Look up all that a run needs without fetching it: what is missing, what will be fetched, how large it is.

    Example: hardneg recipe check star-passage --preset paper
    """
    from hardneg.recipe.estimate import estimate
    from hardneg.recipe.needs import needs

    problems: list[HardnegError] = []
    recipe_plan, opened = planned(name, preset, settings, problems), open_store(store)
    needed = list(needs(recipe_plan))
    missing = [need for need in needed if need.missing]
    summary = {
        "recipe": recipe_plan.recipe.name,
        "preset": recipe_plan.recipe.preset,
        "ready": not missing and not problems,
        "ahead": sum(need.ahead for need in needed),
        "disk": sum(row.disk for row in estimate(recipe_plan, opened) if not row.cached),
        "free": free_bytes(opened.root),
        "store": str(opened.root),
        "problems": list(map(str, problems)),
    }
    say_answer({**summary, "needs": [need.to_json() for need in needed]}, _lines(needed, summary), as_json)
    if missing:
        raise typer.Exit(missing[0].exit_code)
    if problems:
        raise problems[0]  # what is wrong with what is here


@app.command()
def run(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Stop after this stage.", autocompletion=completion.stages),
    force: list[str] = typer.Option(
        [], help="Rerun this stage and all that depend on it.", autocompletion=completion.stages
    ),
    output: Path | None = output("The run folder; default runs/NAME-PRESET.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Run a recipe: reuse what the store has, make the rest, and write the results to the run folder.

    Example: hardneg recipe run star-passage --set dataset=beir:scifact --output runs/scifact
    """
    from hardneg.recipe.execute import Options
    from hardneg.recipe.run_folder import default_folder

    chosen = configured(engine, engine_option)
    with together(device) as own_device:
        options = Options(until, tuple(force), own_device, chosen)
        recipe_plan, opened = planned(name, preset, settings), open_store(store)
        check_stages(recipe_plan, until, force)
        folder = output or default_folder(recipe_plan.recipe.name, recipe_plan.recipe.preset)
        with run_outputs(recipe_plan, opened, folder, overwrite).begun():
            _run(recipe_plan, opened, options, folder, settings)


def _run(recipe_plan: "Plan", opened: Store, options: "Options", folder: Path, settings: Sequence[str]) -> None:
    """The first of several processes prints and publishes."""
    from hardneg.recipe.run_folder import publish

    console = stderr_console()
    if world().first:
        console.print(headline(recipe_plan))
        several = f", {world().size} processes" if world().size > 1 else ""
        console.print(f"run folder {folder}, store {opened.root}{several}")
    outcome = run_plan(recipe_plan, opened, options)
    if not world().first:
        return
    publish(recipe_plan, outcome.artifacts, opened, folder)
    console.print(f"{len(outcome.ran)} of {counted(len(outcome.artifacts), 'step')} ran")
    result_table(folder, outcome.artifacts)
    for what, command in next_commands(recipe_plan.recipe, folder, settings):
        console.print(f"next, {what}: {command}")


def result_table(folder: Path, artifacts: Mapping[str, Artifact]) -> None:
    """The report's table on stdout, and where the results are."""
    from hardneg.evaluation.metrics_json import from_json

    console = stdout_console()
    if any(artifact.artifact_type == "metrics" for artifact in artifacts.values()):
        measured_tables(console, from_json(json.loads((folder / METRICS).read_text(encoding="utf-8"))))
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            console.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)


def next_commands(recipe: "Recipe", folder: Path, settings: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """After a shipped recipe's demo the most useful next things: what each is, and its command.

    settings: what was set in the recipe that has run, and so is set again.
    """
    from hardneg.recipe.language import preset_names
    from hardneg.recipe.yaml_load import is_shipped

    if recipe.preset != "demo" or not is_shipped(recipe.source):
        return
    run = f"{_program()} recipe run {recipe.name}"
    preset = " --preset small" if "small" in preset_names(recipe.source) else ""
    yield "the report", f"python3 -m webbrowser {shlex.quote(str(folder / 'report.html'))}"
    if not any(setting.startswith("dataset") for setting in settings):
        yield "a collection of your own", f"{run}{preset} --set dataset=beir:path/to/folder --output runs/mine"
    run += "".join(f" --set {shlex.quote(setting)}" for setting in settings)
    written = {copy: stage for stage, copies in recipe.copies.items() for copy in copies.values()}
    for name, spec in recipe.stages.items():
        if steps := getattr(getattr(spec, "options", None), "max_steps", None):
            yield "one thing changed", f"{run} --set stages.{written.get(name, name)}.options.max_steps={2 * steps}"
            return


def _program() -> str:
    """How hardneg was called, if not by its name alone."""
    called = Path(sys.argv[0])
    return "hardneg" if called.name != "hardneg" or shutil.which("hardneg") else shlex.quote(str(called))


def _lines(needed: Sequence["Need"], summary: Mapping[str, Any]) -> Iterator[str]:
    for need in needed:
        if need.missing:
            yield f"missing   {need.category} {need.subject}: {need.missing}"
            continue
        sizes = [size(need.ahead)] * bool(need.ahead)
        sizes += [f"{size(need.there)} are there"] * bool(need.there and need.ahead)
        facts = ", ".join([*sizes, *([need.note] if need.note else [])])
        state = "to fetch" if need.ahead else "there"
        yield f"{state:<8}  {need.category} {need.subject}{f': {facts}' if facts else ''}"
    free = f"{size(summary['free'])} are free"
    free += ": too little" if summary["disk"] + summary["ahead"] > summary["free"] else ""
    takes = f"the run takes about {size(summary['disk'])} in {summary['store']}, where {free}"
    yield f"to come {size(summary['ahead'])}; {takes}"
    if missing := sum(bool(need.missing) for need in needed):
        yield f"{missing} of {len(needed)} missing"
    elif summary["ready"]:
        yield "ready: all of it is here or can be fetched"
