"""The commands `hardneg recipe`, `hardneg start` and `hardneg artifacts`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from time import time
from typing import Any

import typer

from hardneg import evaluation, recipes
from hardneg.cli import adaptor, console
from hardneg.cli.adaptor import DEVICE, ENGINE, ENGINE_OPTION, JSON, OVERWRITE, STORE, tell_once
from hardneg.cli.console import say, say_answer
from hardneg.cli.planned_work import TerminalSession, free_bytes, open_store, opened, show_plan, store_outputs, together
from hardneg.functions.session import planned_recipe
from hardneg.records import errors, layout, wording
from hardneg.runtime import world
from hardneg.store import artifacts, outputs, pack as packing, replace_text

app = typer.Typer(help="List, plan, run and verify recipes: pipelines to a tested result.", no_args_is_help=True)

NAME = typer.Argument(help="A recipe's name, or the path of a recipe file.", autocompletion=adaptor.complete_recipes)
_PRESETS = "`demo` (the default; takes minutes, needs no network), `paper`, or another preset of the recipe."
PRESET = typer.Option(None, "--preset", "-p", help=_PRESETS, autocompletion=adaptor.complete_presets)
_MANY = "Plan for N documents, such as 1e9, as if the store were empty."
_AGAIN = "Rerun this stage and all stages that depend on it."
_ONE = "Change one value, such as stages.star.options.epochs=2."
SET = typer.Option([], "--set", metavar="PATH=VALUE", help=_ONE)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the recipes that come with hardneg, followed by those of installed packages.

    Example: hardneg recipe list
    """
    sources = {name: recipes.find_recipe(name) for name in recipes.named_recipes()}
    summary = {name: next(iter(recipes.head_comment(source)), "") for name, source in sources.items()}
    rows = [{"name": name, "about": summary[name], "path": str(source)} for name, source in sources.items()]
    say_answer(rows, console.aligned(summary.items()), as_json)


@app.command()
def show(name: str = NAME, preset: str | None = PRESET, settings: list[str] = SET) -> None:
    """Print a recipe, so that you can save it to a file, change it, and run it by its path.

    A self-contained recipe is printed unchanged; any other is expanded to the plain stages of one preset.

    Example: hardneg recipe show star-passage --preset paper > mine.yaml
    """
    say(recipes.plain_text(recipes.find_recipe(name), preset, settings), nl=False)


@app.command()
def plan(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Plan up to this stage.", autocompletion=adaptor.complete_stages),
    documents: float | None = typer.Option(None, min=1, metavar="N", help=_MANY),
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show each step of a recipe with its state, key, number of items and size on disk.

    If the store has a similar step (same stage, options, dataset and start model), its duration is shown too.

    Example: hardneg recipe plan star-passage --preset paper
    """
    problems: list[errors.HardnegError] = []
    recipe_plan, opened = planned_recipe(name, preset, settings, tell_once, problems), open_store(store)
    _check_stages(recipe_plan, until)
    if not as_json:
        say(_headline(recipe_plan))
    show_plan(recipe_plan, opened, problems, as_json, until, int(documents) if documents else None)


@app.command()
def check(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Check everything that a run needs, without downloading; list what is missing and how large the downloads are.

    Example: hardneg recipe check star-passage --preset paper
    """
    problems: list[errors.HardnegError] = []
    recipe_plan, opened = planned_recipe(name, preset, settings, tell_once, problems), open_store(store)
    needed = list(recipes.needs(recipe_plan))
    missing = [need for need in needed if need.missing]
    summary = {
        "recipe": recipe_plan.recipe.name,
        "preset": recipe_plan.recipe.preset,
        "ready": not missing and not problems,
        "ahead": sum(need.ahead for need in needed),
        "disk": sum(row.disk for row in recipes.estimate(recipe_plan, opened) if not row.cached),
        "free": free_bytes(opened.root),
        "store": str(opened.root),
        "problems": list(map(str, problems)),
    }
    say_answer({**summary, "needs": [need.to_json() for need in needed]}, _lines(needed, summary), as_json)
    if missing:
        raise typer.Exit(missing[0].exit_code)
    if problems:
        raise problems[0]


@app.command()
def run(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Stop after this stage.", autocompletion=adaptor.complete_stages),
    force: list[str] = typer.Option([], help=_AGAIN, autocompletion=adaptor.complete_stages),
    output: Path | None = adaptor.output("The run folder; default: runs/NAME-PRESET.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Run a recipe: reuse the artifacts in the store, create the missing ones, and write the results to a run folder.

    Example: hardneg recipe run star-passage --set dataset=beir:scifact --output runs/scifact
    """
    with together(device) as own_device:
        session = opened(store, own_device, engine=engine, options=engine_option)
        recipe_plan = planned_recipe(name, preset, settings, tell_once)
        _check_stages(recipe_plan, until, force)
        folder = output or recipes.default_folder(recipe_plan.recipe.name, recipe_plan.recipe.preset)
        target = outputs.Target(folder, folder=True, names=recipes.names(recipe_plan), marked_by=layout.LOCK)
        with store_outputs(recipes.COMMAND, [target], [], overwrite, session.store, recipe_plan).reserve():
            _run(recipe_plan, session, until, force, folder)


def _run(
    recipe_plan: "recipes.Plan", session: TerminalSession, until: str | None, force: Sequence[str], folder: Path
) -> None:
    """Run a plan; the first process publishes the results and prints the tables, files and next step."""
    answer = console.stdout_console()
    if world().rank == 0:
        say(_headline(recipe_plan), err=True)
        several = f", {world().size} processes" if world().size > 1 else ""
        say(f"run folder {folder}, store {session.store.root}{several}", err=True)
    outcome = session.make(recipe_plan, until, force)
    if world().rank > 0:
        return
    recipes.publish(recipe_plan, outcome.artifacts, session.store, folder)
    say(f"{len(outcome.ran)} of {wording.counted(len(outcome.artifacts), 'step')} ran", err=True)
    if any(artifact.artifact_type == "metrics" for artifact in outcome.artifacts.values()):
        console.measured_tables(answer, evaluation.metrics_json.read_metrics(folder / layout.METRICS))
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            answer.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)
    if (folder / layout.REPORT_HTML).is_file():
        hint, ran = "", recipe_plan.recipe
        if "dataset=" not in ran.command and ran.source in map(recipes.find_recipe, recipes.named_recipes()):
            hint = "; to use your own data, add --set dataset=beir:FOLDER"
        say(f"next: open {folder / layout.REPORT_HTML}{hint}", err=True)
    console.say_next(recipes.next_steps(recipe_plan.recipe, folder))


def _check_stages(plan: "recipes.Plan", until: str | None, force: Sequence[str] = ()) -> None:
    """Raise UsageError for all unknown stage names at once."""
    problems = []
    for option, name in [("--until", until), *(("--force", name) for name in force)]:
        try:
            plan.until(name)
        except errors.UsageError as error:
            problems.append(f"{option} {name}: {error}")
    if problems:
        raise errors.UsageError("\n".join(problems))


def _headline(plan: "recipes.Plan") -> str:
    """Return the recipe's name and preset, and its other presets."""
    others = [preset for preset in recipes.preset_names(plan.recipe.source) if preset != plan.recipe.preset]
    other = f"; other preset{'s' if others[1:] else ''}: --preset {' or '.join(others)}" if others else ""
    return f"recipe {plan.recipe.name}" + (f", preset {plan.recipe.preset}{other}" if plan.recipe.preset else "")


def _lines(needed: Sequence["recipes.Need"], summary: Mapping[str, Any]) -> Iterator[str]:
    for need in needed:
        if need.missing:
            yield f"missing  {need.category} {need.subject}: {need.missing}"
            continue
        sizes = [wording.size(need.ahead)] * bool(need.ahead)
        sizes += [f"{wording.size(need.there)} already here"] * bool(need.there and need.ahead)
        facts = ", ".join([*sizes, *([need.note] if need.note else [])])
        state = "fetch" if need.ahead else "here"
        yield f"{state:<7}  {need.category} {need.subject}{f': {facts}' if facts else ''}"
    low = " (not enough)" if summary["disk"] + summary["ahead"] > summary["free"] else ""
    yield (
        f"download {wording.size(summary['ahead'])}; the run writes about {wording.size(summary['disk'])} to "
        f"{summary['store']}, {wording.size(summary['free'])} free{low}"
    )
    if missing := sum(bool(need.missing) for need in needed):
        yield f"{missing} of {len(needed)} missing"
    elif summary["ready"]:
        yield "ready: everything is here or can be downloaded"


def start(
    folder: Path = typer.Argument(..., metavar="FOLDER", help="Documents, optionally with queries and judgements."),
    model: str | None = typer.Option(None, help="The start model; default: static word vectors."),
    glob: str | None = typer.Option(None, help="Pattern of the files to read, such as 'guide/**/*.md'; default: all."),
    runs: bool = typer.Option(False, "--run", help="Also run the recipe, with results in runs/NAME."),
    output: Path | None = adaptor.output("The recipe to write; default: NAME.yaml, named after the folder.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
) -> None:
    """Inspect a folder, report what can be trained on it, and write a recipe.

    The folder contains documents and, optionally, queries and judgements, in a format that a dataset loader reads.

    Example: hardneg start docs --run
    """
    from hardneg.functions.starting import Beginning, takes

    session, beginning = opened(store, device), Beginning.of(folder, glob, model)
    recipe, results = beginning.paths(output, runs)
    command = f"hardneg recipe run {quote(str(recipe))}"
    target = outputs.Target(recipe, use=f"`{command}` runs it unchanged")
    written = store_outputs("start", [target], [beginning.contents.folder], overwrite, session.store)
    written.check()
    say("\n".join(beginning.sentences()))
    with written.publish():
        replace_text(recipe, beginning.recipe(recipe))
    problems: list[errors.HardnegError] = []
    recipe_plan = planned_recipe(str(recipe), None, [], tell_once, problems)
    say(f"{recipe}: written; {takes(recipes.estimate(recipe_plan, session.store))}")
    if problems:
        raise problems[0]
    if runs:
        run(str(recipe), None, [], None, [], results, overwrite, store, device, layout.LOCAL, [])
    else:
        say(f"to run it: {command} --output {quote(str(results))}")


artifacts_app = typer.Typer(
    help="Manage the store: list artifacts, explain why a step runs, verify, free space.", no_args_is_help=True
)


@artifacts_app.command("list")
def list_artifacts(store: Path | None = STORE, as_json: bool = JSON) -> None:
    """List the finished artifacts: key, kind, stage, size.

    Example: hardneg artifacts list --json
    """
    rows: list[dict[str, Any]] = []
    lines = []
    for item in open_store(store).artifacts():
        if isinstance(item, Exception):
            rows.append({"damaged": str(item)})
            lines.append(f"damaged: {item}")
            continue
        total = sum(path.stat().st_size for path in item.path.rglob("*") if path.is_file())
        about = {"key": item.key, "kind": item.artifact_type, "name": item.origin["name"]}
        rows.append({**about, "bytes": total, "path": str(item.path)})
        lines.append(f"{item.key}  {item.artifact_type:<10}  {item.origin['name']:<16}  {wording.size(total)}")
    say_answer(rows, lines, as_json)


@artifacts_app.command()
def why(
    stage: str = typer.Argument(help="A stage of the recipe.", autocompletion=adaptor.complete_stages),
    recipe: str = typer.Option(
        "star-passage", help="The recipe's name or path.", autocompletion=adaptor.complete_recipes
    ),
    preset: str | None = PRESET,
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Explain why a stage would run: its differences from the most similar artifact in the store.

    Example: hardneg artifacts why star --recipe star-passage --set stages.star.options.epochs=2
    """
    plan = planned_recipe(recipe, preset, settings, lambda note: None)
    for line in recipes.explain(plan.until(stage)[-1], open_store(store)):
        say(line)


@artifacts_app.command()
def pack(
    folder: Path = typer.Argument(metavar="RUNFOLDER", help="The run folder of a finished recipe."),
    to: Path | None = typer.Option(None, "--to", help="The file to write, .tar or .tar.gz; default: RUNFOLDER.tar."),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
) -> None:
    """Pack a run folder and its artifacts into one file, for another machine or an archive.

    Example: hardneg artifacts pack runs/star-passage-demo --to star.tar.gz
    """
    opened, file = open_store(store), to or folder.with_name(f"{folder.resolve().name}.tar")
    behind = recipes.artifacts_of(folder, opened)
    written = store_outputs("artifacts pack", [outputs.Target(file)], [folder], overwrite, opened)
    written.check()
    with written.publish():
        packing.pack(folder, behind, file)
    say(f"{file}: {wording.counted(len(behind), 'artifact')}, {wording.size(file.stat().st_size)}")


@artifacts_app.command()
def unpack(
    file: Path = typer.Argument(help="A file written by `hardneg artifacts pack`."),
    output: Path | None = adaptor.output("The run folder to write; default: the packed folder's name.", None),
    store: Path | None = STORE,
) -> None:
    """Verify every byte of a packed file, then unpack its artifacts into the store and write its run folder.

    Example: hardneg artifacts unpack star.tar.gz --output runs/star
    """
    say(folder := packing.unpack(file, open_store(store), output))
    more = f" --store {quote(str(store))}" if store else ""
    command = f"hardneg recipe run {quote(str(folder / layout.LOCK))}{more}"
    console.say_next([("run its recipe from the lock file", command)])


@artifacts_app.command("check")
def check_store(
    repair: bool = typer.Option(False, "--repair", help="Remove damaged artifacts; the next run recreates them."),
    store: Path | None = STORE,
) -> None:
    """Verify every byte in the store; exit with code 5 if an artifact is damaged and not removed.

    Example: hardneg artifacts check --repair
    """
    opened = open_store(store)
    entries = list(artifacts.check(opened, console.Bars()))
    damaged = [item for item in entries if item.problem]
    for item in damaged:
        say(f"{item.stage}: {item.problem}")
        if repair:
            with opened.lock(item.key):
                opened.discard(item.key)
            users = ", ".join(str(path) for path in outputs.owners(opened, item.key) if path.exists())
            linked = f"; hard links in {users} are damaged too: rerun the commands that wrote them" if users else ""
            say(f"  removed; the next run recreates it{linked}")
    if earlier := sum(item.size_only for item in entries):
        say(f"{earlier} from an earlier version of hardneg: sizes checked, no checksums recorded")
    if newer := sum(item.newer for item in entries):
        say(f"{newer} from a newer version of hardneg: not checked")
    done = "removed" if repair else "removable with --repair"
    state = f"{len(damaged)} damaged, {done}" if damaged else "none damaged"
    say(f"{wording.counted(len(entries), 'artifact')}, {wording.size(sum(item.size for item in entries))}: {state}")
    if damaged and not repair:
        raise typer.Exit(errors.ArtifactError.exit_code)


@artifacts_app.command()
def gc(
    delete: bool = typer.Option(False, "--delete", help="Remove the artifacts; by default, they are only listed."),
    forget: bool = typer.Option(False, "--forget-unfinished", help="Include the artifacts of stopped runs."),
    store: Path | None = STORE,
) -> None:
    """List or remove artifacts that no existing result, unfinished run or process uses.

    The artifacts of a stopped run are kept until the same command finishes; --forget-unfinished includes them.

    Example: hardneg artifacts gc
    """
    opened = open_store(store)
    for run in outputs.unfinished(opened):
        state, kept = "unfinished", "its artifacts are kept; --forget-unfinished includes them"
        if run.running:
            state, kept = "running", "its artifacts are kept"
        elif forget:
            kept = "its artifacts are removed" if delete else "--delete removes its artifacts"
        since = wording.duration(max(0.0, time() - run.started))
        say(f"{state}: hardneg {run.command} to {run.owner}, started {since} ago; {kept}")
    entries = outputs.collect(opened, forget) if delete else outputs.garbage(opened, forget)
    for path, count in entries:
        say(f"{path.name}  {wording.size(count)}")
    total = wording.size(sum(count for _, count in entries))
    say(f"{len(entries)} folders, {total} {'removed' if delete else 'removable with --delete'}")
