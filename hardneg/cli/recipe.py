"""`hardneg recipe`: list, show, plan and run recipes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import Bars, aligned, say, say_answer, stderr_console
from hardneg.cli.launch import launched, meet, together
from hardneg.cli.options import DEVICE, ENGINE, ENGINE_OPTION, JSON, OVERWRITE, PROCESSES, STORE, open_store, output
from hardneg.cli.packages import PackageGroup
from hardneg.cli.planned_work import configured, free_bytes, store_outputs
from hardneg.cli.recipe_options import NAME, PRESET, SET, check_stages, headline, planned
from hardneg.cli.recipe_plan import plan, run_outputs
from hardneg.records.errors import HardnegError
from hardneg.records.wording import counted, size
from hardneg.runtime.distributed import world
from hardneg.store.artifacts import Store
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.recipe.execute import Options
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
    problems: list[HardnegError] = []
    recipe_plan = planned(name, preset, settings, problems)
    _check_needs(recipe_plan, open_store(store), as_json, problems)
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
    processes: int | None = PROCESSES,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Run a recipe: reuse what the store has, make the rest, and write the results to the run folder.

    Example: hardneg recipe run star-passage --set dataset=beir:scifact --output runs/scifact
    """
    from hardneg.recipe.execute import Options
    from hardneg.recipe.run_folder import default_folder

    chosen = configured(engine, engine_option, processes)
    if launched(processes, device):
        return
    with together(device) as own_device:
        options = Options(until, tuple(force), own_device, chosen)
        recipe_plan, opened = planned(name, preset, settings), open_store(store)
        check_stages(recipe_plan, until, force)
        folder = output or default_folder(recipe_plan.recipe.name, recipe_plan.recipe.preset)
        with run_outputs(recipe_plan, opened, folder, overwrite).begun():
            _run(recipe_plan, opened, options, folder, settings)


def _run(recipe_plan: "Plan", opened: Store, options: "Options", folder: Path, settings: Sequence[str]) -> None:
    """The first of several processes prints and publishes."""
    from hardneg.cli.run_progress import next_commands, result_table, step_watcher
    from hardneg.recipe.execute import Watcher, execute
    from hardneg.recipe.run_folder import publish

    meet(recipe_plan.keys, opened.root)
    if not world().first:
        execute(recipe_plan, opened, options, Watcher())
        return
    console = stderr_console()
    console.print(headline(recipe_plan))
    several = f", {world().size} processes" if world().size > 1 else ""
    console.print(f"run folder {folder}, store {opened.root}{several}")
    watcher = step_watcher(console, Bars(console), len(recipe_plan.until(options.until)))
    outcome = execute(recipe_plan, opened, options, watcher)
    publish(recipe_plan, outcome.artifacts, opened, folder)
    console.print(f"{len(outcome.ran)} of {counted(len(outcome.artifacts), 'step')} ran")
    result_table(folder, outcome.artifacts)
    for what, command in next_commands(recipe_plan.recipe, folder, settings):
        console.print(f"next, {what}: {command}")


def _check_needs(recipe_plan: "Plan", store: Store, as_json: bool, problems: Sequence[HardnegError]) -> None:
    """Prints all that the plan needs; exits with the code of the first thing that is missing."""
    from hardneg.recipe.needs import needs

    needed = list(needs(recipe_plan))
    summary = {**_summary(recipe_plan, store, needed), "problems": list(map(str, problems))}
    summary["ready"] = summary["ready"] and not problems
    say_answer({**summary, "needs": [need.to_json() for need in needed]}, _lines(needed, summary), as_json)
    for need in needed:
        if need.missing:
            raise typer.Exit(need.exit_code)


def _summary(recipe_plan: "Plan", store: Store, needed: Sequence["Need"]) -> dict[str, Any]:
    from hardneg.recipe.estimate import estimate

    return {
        "recipe": recipe_plan.recipe.name,
        "preset": recipe_plan.recipe.preset,
        "ready": not any(need.missing for need in needed),
        "ahead": sum(need.ahead for need in needed),
        "disk": sum(row.disk for row in estimate(recipe_plan, store) if not row.cached),
        "free": free_bytes(store.root),
        "store": str(store.root),
    }


def _lines(needed: Sequence["Need"], summary: dict[str, Any]) -> list[str]:
    lines = [_line(need) for need in needed]
    scarce = summary["disk"] + summary["ahead"] > summary["free"]
    lines.append(
        f"to come {size(summary['ahead'])}; the run takes about {size(summary['disk'])} in {summary['store']}, where "
        f"{size(summary['free'])} are free{': too little' if scarce else ''}"
    )
    missing = sum(bool(need.missing) for need in needed)
    if missing:
        lines.append(f"{missing} of {len(needed)} missing")
    elif summary["ready"]:
        lines.append("ready: all of it is here or can be fetched")
    return lines


def _line(need: "Need") -> str:
    if need.missing:
        return f"missing   {need.category} {need.subject}: {need.missing}"
    state = "to fetch" if need.ahead else "there"
    sizes = [size(need.ahead)] * bool(need.ahead) + [f"{size(need.there)} are there"] * bool(need.there and need.ahead)
    facts = ", ".join([*sizes, *([need.note] if need.note else [])])
    return f"{state:<8}  {need.category} {need.subject}{f': {facts}' if facts else ''}"
