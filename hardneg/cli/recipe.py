"""`hardneg recipe` and `hardneg start`: list, show, plan and run recipes, and write one that fits a folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from time import time
from typing import Any

import typer

from hardneg import evaluation, recipes
from hardneg.cli import adaptor, console
from hardneg.cli.adaptor import DEVICE, ENGINE, ENGINE_OPTION, JSON, OVERWRITE, STORE, open_store, tell_once
from hardneg.cli.console import say, say_answer
from hardneg.cli.planned_work import configured, free_bytes, opened, run_plan, store_outputs, together
from hardneg.functions.session import planned_recipe
from hardneg.records import errors, layout, wording
from hardneg.report.table import Table
from hardneg.runtime import world
from hardneg.store import Store, artifacts, gc_roots, replace_text, replaced_files

app = typer.Typer(
    cls=adaptor.PackageGroup,
    help="List, plan, run and verify recipes, pipelines to a tested result.",
    no_args_is_help=True,
)

NAME = typer.Argument(help="A recipe's name, or the path of a recipe file.", autocompletion=adaptor.complete_recipes)
_PRESETS = "`demo` (the default: minutes, no network), `paper`, or another preset of the recipe."
PRESET = typer.Option(None, "--preset", "-p", help=_PRESETS, autocompletion=adaptor.complete_presets)
_MANY = "Plan for N documents, such as 1e9, with none of them in the store."
_AGAIN = "Rerun this stage and all that depend on it."
_ONE = "Change one value, such as stages.star.options.epochs=2."
SET = typer.Option([], "--set", metavar="PATH=VALUE", help=_ONE)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the recipes: those that come with hardneg, then those of installed packages.

    Example: hardneg recipe list
    """
    sources = {name: recipes.find_recipe(name) for name in recipes.named_recipes()}
    summary = {name: next(iter(recipes.head_comment(source)), "") for name, source in sources.items()}
    rows = [{"name": name, "about": summary[name], "path": str(source)} for name, source in sources.items()]
    say_answer(rows, console.aligned(summary.items()), as_json)


@app.command()
def show(name: str = NAME, preset: str | None = PRESET, settings: list[str] = SET) -> None:
    """Print a recipe; save it to a file, change it, and run it by its path.

    A file that stands alone is printed as it is, other recipes as the plain stages of a preset.

    Example: hardneg recipe show star-passage --preset paper > mine.yaml
    """
    say(recipes.plain_text(recipes.find_recipe(name), preset, settings), nl=False)


@app.command()
def plan(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Only what this stage needs.", autocompletion=adaptor.complete_stages),
    documents: float | None = typer.Option(None, min=1, metavar="N", help=_MANY),
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show each step, in the store or to run, with its key, its items and its bytes.

    Seconds are told where the store has a step like it: of the same stage and options, dataset and start model.

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
    """Look up all that a run needs without fetching it: what is missing, what will be fetched, how large it is.

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
        raise problems[0]  # what is wrong with what is here


@app.command()
def run(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Stop after this stage.", autocompletion=adaptor.complete_stages),
    force: list[str] = typer.Option([], help=_AGAIN, autocompletion=adaptor.complete_stages),
    output: Path | None = adaptor.output("The run folder; default runs/NAME-PRESET.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Run a recipe: reuse what the store has, make the rest, and write the results to the run folder.

    Example: hardneg recipe run star-passage --set dataset=beir:scifact --output runs/scifact
    """
    chosen = configured(engine, engine_option)
    with together(device) as own_device:
        options = recipes.Options(until, tuple(force), own_device, chosen)
        recipe_plan, opened = planned_recipe(name, preset, settings, tell_once), open_store(store)
        _check_stages(recipe_plan, until, force)
        folder = output or recipes.default_folder(recipe_plan.recipe.name, recipe_plan.recipe.preset)
        target = replaced_files.Target(folder, folder=True, names=recipes.names(recipe_plan), marked_by=layout.LOCK)
        with store_outputs(recipes.COMMAND, [target], [], overwrite, opened, recipe_plan).begun():
            _run(recipe_plan, opened, options, folder)


def _run(recipe_plan: "recipes.Plan", opened: Store, options: "recipes.Options", folder: Path) -> None:
    """The first of several processes prints and publishes: the report's table, where the results are, what is next."""
    terminal, answer = console.stderr_console(), console.stdout_console()
    if world().first:
        terminal.print(_headline(recipe_plan))
        several = f", {world().size} processes" if world().size > 1 else ""
        terminal.print(f"run folder {folder}, store {opened.root}{several}")
    outcome = run_plan(recipe_plan, opened, options)
    if not world().first:
        return
    recipes.publish(recipe_plan, outcome.artifacts, opened, folder)
    terminal.print(f"{len(outcome.ran)} of {wording.counted(len(outcome.artifacts), 'step')} ran")
    if any(artifact.artifact_type == "metrics" for artifact in outcome.artifacts.values()):
        console.measured_tables(
            answer, evaluation.metrics_json.from_json(json.loads((folder / layout.METRICS).read_text(encoding="utf-8")))
        )
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            answer.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)
    if (folder / layout.REPORT_HTML).is_file():
        terminal.print(f"next: open {folder / layout.REPORT_HTML}; for data of your own, --set dataset=beir:FOLDER")


def _check_stages(plan: "recipes.Plan", until: str | None, force: Sequence[str] = ()) -> None:
    """All mistakes in the names of stages, before anything is printed or made."""
    named = [("--until", until), *(("--force", name) for name in force)]
    problems = []
    for option, name in named:
        try:
            plan.until(name)
        except errors.UsageError as error:
            problems.append(f"{option} {name}: {error}")
    if problems:
        raise errors.UsageError("\n".join(problems))


def _headline(plan: "recipes.Plan") -> str:
    """The recipe's name and preset, and the others that it has."""
    others = [preset for preset in recipes.preset_names(plan.recipe.source) if preset != plan.recipe.preset]
    other = f"; the other{'s' if others[1:] else ''}: --preset {' or '.join(others)}" if others else ""
    return f"recipe {plan.recipe.name}" + (f", preset {plan.recipe.preset}{other}" if plan.recipe.preset else "")


def show_plan(
    plan: "recipes.Plan",
    store: Store,
    problems: Sequence[errors.HardnegError] = (),
    as_json: bool = False,
    until: str | None = None,
    documents: int | None = None,
) -> None:
    """Print what a plan makes, what is too large for the disk, and what is missing before it can run."""
    rows = recipes.estimate(plan, store, until, documents)
    too_large = list(recipes.no_room(rows, free_bytes(store.root)))
    ahead = [*map(str, problems), *(need.missing for need in recipes.packages(plan) if need.missing)]
    if as_json:
        return console.say_json({**_content(plan, rows), "too large": too_large, "before it can run": ahead}, indent=1)
    plan_table(rows, plan.recipe.copies)
    for line in too_large:
        say(f"too large: {line}")
    if any(layout.START in step.inputs.values() for step in plan.until(until)):
        model = plan.recipe.models.of(plan.recipe.model)
        for line in model.remarks if model.folder is not None else ():
            say(f"model {model.spec.name}: {line}")
    for problem in ahead:
        say(f"before it can run: {problem}")


def _content(plan: "recipes.Plan", rows: "Sequence[recipes.Estimate]") -> dict[str, Any]:
    """The steps and their sum for `--json`; null for times that are not known."""
    copies = plan.recipe.copies
    seed_copies = {copy: {"of": name, "seed": seed} for name, seeds in copies.items() for seed, copy in seeds.items()}
    ahead = [row for row in rows if not row.cached]
    to_run = {"steps": len(ahead), "disk": sum(row.disk for row in ahead)}
    steps = []
    for row in rows:
        named = {"step": row.step.name, "stage": row.step.verb, "key": row.step.key, "stored": row.cached}
        counts = {name: getattr(row, name) for name in ("items", "unit", "disk", "seconds")}
        like = {"like": row.like.key if row.like else None}
        steps.append(named | counts | like | seed_copies.get(row.step.name, {}))
    return {"recipe": plan.recipe.name, "preset": plan.recipe.preset, "steps": steps, "to run": to_run}


def plan_table(rows: "Sequence[recipes.Estimate]", copies: Mapping[str, Mapping[int, str]] = {}) -> None:
    """Print one row a step, and the sum of all that is to run; seconds where a step like one is in the store.

    A stage that is made once a seed has one row, with the counts of all seeds.
    """
    stage_of = {copy: name for name, seeds in copies.items() for copy in seeds.values()}
    groups: dict[str, list[recipes.Estimate]] = {}
    for row in rows:
        groups.setdefault(stage_of.get(row.step.name, row.step.name), []).append(row)
    lines = []
    for name, group in groups.items():
        first, count, stored = group[0], len(group), sum(row.cached for row in group)
        called = f"{name} x {wording.counted(count, 'seed')}" if name in copies else name
        state = "stored" if stored == count else f"{stored} of {count} stored" if stored else "to run"
        key = first.step.key[:8] if count == 1 else f"{count} keys"
        items, disk = f"{sum(row.items for row in group):,} {first.unit}", wording.size(sum(row.disk for row in group))
        seconds = sum(row.seconds or 0 for row in group)
        lines.append([called, first.step.verb, state, key, items, disk, wording.duration(seconds) if seconds else ""])
    columns = ["step", "stage", "state", "key", "items", "disk", "a step like it took"]
    shown = len(columns) - (not any(line[-1] for line in lines))
    terminal = console.stdout_console()
    console.print_table(terminal, Table(columns[:shown], [line[:shown] for line in lines], words=4), narrow="stage")
    ahead = [row for row in rows if not row.cached]
    parts = [f"to run: {len(ahead)} of {len(rows)} steps, about {wording.size(sum(row.disk for row in ahead))} of disk"]
    if known := [row.seconds for row in ahead if row.seconds is not None]:
        parts.append(f"{wording.duration(sum(known))} for {len(known)} of them, as steps like them took")
    terminal.print(", ".join(parts), soft_wrap=True)


def _lines(needed: Sequence["recipes.Need"], summary: Mapping[str, Any]) -> Iterator[str]:
    for need in needed:
        if need.missing:
            yield f"missing   {need.category} {need.subject}: {need.missing}"
            continue
        sizes = [wording.size(need.ahead)] * bool(need.ahead)
        sizes += [f"{wording.size(need.there)} are there"] * bool(need.there and need.ahead)
        facts = ", ".join([*sizes, *([need.note] if need.note else [])])
        state = "to fetch" if need.ahead else "there"
        yield f"{state:<8}  {need.category} {need.subject}{f': {facts}' if facts else ''}"
    free = f"{wording.size(summary['free'])} are free"
    free += ": too little" if summary["disk"] + summary["ahead"] > summary["free"] else ""
    takes = f"the run takes about {wording.size(summary['disk'])} in {summary['store']}, where {free}"
    yield f"to come {wording.size(summary['ahead'])}; {takes}"
    if missing := sum(bool(need.missing) for need in needed):
        yield f"{missing} of {len(needed)} missing"
    elif summary["ready"]:
        yield "ready: all of it is here or can be fetched"


def start(
    folder: Path = typer.Argument(..., metavar="FOLDER", help="Documents, maybe with queries, maybe with judgements."),
    model: str | None = typer.Option(None, help="Where training begins; by default a static table."),
    glob: str | None = typer.Option(None, help="Which documents are read, such as 'guide/**/*.md'; by default all."),
    runs: bool = typer.Option(False, "--run", help="Run the recipe too, into runs/NAME."),
    output: Path | None = adaptor.output("The recipe to write; default NAME.yaml, after the folder.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
) -> None:
    """Look at a folder, say what can be trained from it, and write the recipe.

    Documents alone, queries beside them, or judgements too: in a form that a dataset of hardneg reads.

    Example: hardneg start docs --run
    """
    from hardneg.functions.starting import Beginning, takes

    beginning = Beginning.of(folder, glob, model)
    (recipe, results), session = beginning.paths(output, runs), opened(store, device)
    command = f"hardneg recipe run {quote(str(recipe))}"
    target = replaced_files.Target(recipe, use=f"`{command}` runs it as it is")
    outputs = store_outputs("start", [target], [beginning.contents.folder], overwrite, session.store)
    outputs.check()
    say("\n".join(beginning.sentences()))
    with outputs.laid_out():
        replace_text(recipe, beginning.recipe(recipe))
    problems: list[errors.HardnegError] = []
    recipe_plan = planned_recipe(str(recipe), None, [], tell_once, problems)
    say(f"{recipe}: written; {takes(recipes.estimate(recipe_plan, session.store))}")
    if problems:
        raise problems[0]
    if runs:
        run(str(recipe), None, [], None, [], results, overwrite, store, device, layout.LOCAL, [])
    else:
        say(f"run it: {command} --output {quote(str(results))}")


artifacts_app = typer.Typer(
    help="Look after the store: list it, say why a step runs, check it, make room.", no_args_is_help=True
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
    """Explain why a stage would run: what differs from the most similar artifact in the store.

    Example: hardneg artifacts why star --recipe star-passage --set stages.star.options.epochs=2
    """
    plan = planned_recipe(recipe, preset, settings, lambda note: None)
    for line in recipes.explain(plan.until(stage)[-1], open_store(store)):
        say(line)


@artifacts_app.command("check")
def check_store(
    repair: bool = typer.Option(False, "--repair", help="Remove what is damaged; the next run makes it again."),
    store: Path | None = STORE,
) -> None:
    """Read every byte in the store and compare it with what was written; exits with 5 if anything is damaged.

    Example: hardneg artifacts check --repair
    """
    opened = open_store(store)
    entries = list(artifacts.check(opened, console.bars()))
    damaged = [item for item in entries if item.problem]
    for item in damaged:
        say(f"{item.stage}: {item.problem}")
        if repair:
            with opened.lock(item.key):
                opened.discard(item.key)
            users = ", ".join(str(path) for path in gc_roots.owners(opened, item.key) if path.exists())
            again = f"; its files in {users} are damaged too, as far as they are links; run that again" if users else ""
            say(f"  removed; the next run makes it again{again}")
    if earlier := sum(item.size_only for item in entries):
        say(f"{earlier} of an earlier hardneg: their sizes are right, their bytes are not known")
    if newer := sum(item.newer for item in entries):
        say(f"{newer} of a newer hardneg: not looked at")
    done = "removed" if repair else "to remove with --repair"
    state = f"{len(damaged)} damaged, {done}" if damaged else "none damaged"
    say(f"{wording.counted(len(entries), 'artifact')}, {wording.size(sum(item.size for item in entries))}: {state}")
    if damaged and not repair:
        raise typer.Exit(errors.ArtifactError.exit_code)


@artifacts_app.command()
def gc(
    delete: bool = typer.Option(False, "--delete", help="Remove them; without it they are only listed."),
    forget: bool = typer.Option(False, "--forget-unfinished", help="Include the artifacts of stopped runs."),
    store: Path | None = STORE,
) -> None:
    """List or remove artifacts that no existing result, unfinished run or process uses.

    A stopped run keeps its artifacts until the same command finishes, or until it is forgotten.

    Example: hardneg artifacts gc
    """
    opened = open_store(store)
    for run in gc_roots.unfinished(opened):
        state, kept = "unfinished", "what it has made is kept; --forget-unfinished lets it go"
        if run.running:
            state, kept = "running", "what it makes is kept"
        elif forget:
            kept = "forgotten" if delete else "to forget with --delete"
        since = wording.duration(max(0.0, time() - run.begun))
        say(f"{state}: hardneg {run.command} to {run.owner}, begun {since} ago; {kept}")
    entries = gc_roots.collect(opened, forget) if delete else gc_roots.garbage(opened, forget)
    for path, count in entries:
        say(f"{path.name}  {wording.size(count)}")
    total = wording.size(sum(count for _, count in entries))
    say(f"{len(entries)} folders, {total} {'removed' if delete else 'to remove with --delete'}")
