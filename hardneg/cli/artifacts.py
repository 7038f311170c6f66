"""`hardneg artifacts`: list, explain, check, pack and collect the artifacts of the store."""

from pathlib import Path
from time import time
from typing import Any

import typer

from hardneg.cli import adaptor, completion, console
from hardneg.cli.planned_work import store_outputs
from hardneg.cli.recipe import PRESET, SET
from hardneg.functions.session import planned_recipe
from hardneg.records import ArtifactError, counted, duration, size
from hardneg.store import pack as packing
from hardneg.store.artifacts import check as check_all
from hardneg.store.outputs import Target, collect, garbage, owners, unfinished

app = typer.Typer(help="Look after the store: list it, say why a step runs, check it, make room.", no_args_is_help=True)


@app.command("list")
def list_(store: Path | None = adaptor.STORE, as_json: bool = adaptor.JSON) -> None:
    """List the finished artifacts: key, kind, stage, size.

    Example: hardneg artifacts list --json
    """
    rows: list[dict[str, Any]] = []
    lines = []
    for item in adaptor.open_store(store).artifacts():
        if isinstance(item, Exception):
            rows.append({"damaged": str(item)})
            lines.append(f"damaged: {item}")
            continue
        total = sum(path.stat().st_size for path in item.path.rglob("*") if path.is_file())
        about = {"key": item.key, "kind": item.artifact_type, "name": item.origin["name"]}
        rows.append({**about, "bytes": total, "path": str(item.path)})
        lines.append(f"{item.key}  {item.artifact_type:<10}  {item.origin['name']:<16}  {size(total)}")
    console.say_answer(rows, lines, as_json)


@app.command()
def why(
    stage: str = typer.Argument(help="A stage of the recipe.", autocompletion=completion.stages),
    recipe: str = typer.Option("star-passage", help="The recipe's name or path.", autocompletion=completion.recipes),
    preset: str | None = PRESET,
    settings: list[str] = SET,
    store: Path | None = adaptor.STORE,
) -> None:
    """Explain why a stage would run: what differs from the most similar artifact in the store.

    Example: hardneg artifacts why star --recipe star-passage --set stages.star.options.epochs=2
    """
    from hardneg.recipes import explain

    plan = planned_recipe(recipe, preset, settings, lambda note: None)
    for line in explain(plan.until(stage)[-1], adaptor.open_store(store)):
        console.say(line)


@app.command()
def check(
    repair: bool = typer.Option(False, "--repair", help="Remove what is damaged; the next run makes it again."),
    store: Path | None = adaptor.STORE,
) -> None:
    """Read every byte in the store and compare it with what was written; exits with 5 if anything is damaged.

    Example: hardneg artifacts check --repair
    """
    opened = adaptor.open_store(store)
    entries = list(check_all(opened, console.bars()))
    damaged = [item for item in entries if item.problem]
    for item in damaged:
        console.say(f"{item.stage}: {item.problem}")
        if repair:
            with opened.lock(item.key):
                opened.discard(item.key)
            users = ", ".join(str(path) for path in owners(opened, item.key) if path.exists())
            again = f"; its files in {users} are damaged too, as far as they are links; run that again" if users else ""
            console.say(f"  removed; the next run makes it again{again}")
    if earlier := sum(item.size_only for item in entries):
        console.say(f"{earlier} of an earlier hardneg: their sizes are right, their bytes are not known")
    if newer := sum(item.newer for item in entries):
        console.say(f"{newer} of a newer hardneg: not looked at")
    done = "removed" if repair else "to remove with --repair"
    state = f"{len(damaged)} damaged, {done}" if damaged else "none damaged"
    console.say(f"{counted(len(entries), 'artifact')}, {size(sum(item.size for item in entries))}: {state}")
    if damaged and not repair:
        raise typer.Exit(ArtifactError.exit_code)


@app.command()
def pack(
    folder: Path = typer.Argument(metavar="RUNFOLDER", help="The folder of a finished recipe."),
    to: Path | None = typer.Option(None, "--to", help="The file to write, .tar or .tar.gz; default RUNFOLDER.tar."),
    overwrite: bool = adaptor.OVERWRITE,
    store: Path | None = adaptor.STORE,
) -> None:
    """Write a run folder and the artifacts behind it into one file, for another machine or an archive.

    Example: hardneg artifacts pack runs/star-passage-demo --to star.tar.gz
    """
    from hardneg.recipes import artifacts_of

    opened, file = adaptor.open_store(store), to or folder.with_name(f"{folder.resolve().name}.tar")
    artifacts = artifacts_of(folder, opened)
    outputs = store_outputs("artifacts pack", [Target(file)], [folder], overwrite, opened)
    outputs.check()
    with outputs.publish():
        packing.pack(folder, artifacts, file)
    console.say(f"{file}: {counted(len(artifacts), 'artifact')}, {size(file.stat().st_size)}")


@app.command()
def unpack(
    file: Path = typer.Argument(help="A file of `hardneg artifacts pack`."),
    output: Path | None = adaptor.output("The run folder; default the packed one's name.", None),
    store: Path | None = adaptor.STORE,
) -> None:
    """Put a packed run's artifacts into the store, and its run folder here; every byte is verified first.

    Example: hardneg artifacts unpack star.tar.gz --output runs/star
    """
    console.say(packing.unpack(file, adaptor.open_store(store), output))


@app.command()
def gc(
    delete: bool = typer.Option(False, "--delete", help="Remove them; without it they are only listed."),
    forget: bool = typer.Option(False, "--forget-unfinished", help="Include the artifacts of stopped runs."),
    store: Path | None = adaptor.STORE,
) -> None:
    """List or remove artifacts that no existing result, unfinished run or process uses.

    A stopped run keeps its artifacts until the same command finishes, or until it is forgotten.

    Example: hardneg artifacts gc
    """
    opened = adaptor.open_store(store)
    for run in unfinished(opened):
        state, kept = "unfinished", "what it has made is kept; --forget-unfinished lets it go"
        if run.running:
            state, kept = "running", "what it makes is kept"
        elif forget:
            kept = "forgotten" if delete else "to forget with --delete"
        since = duration(max(0.0, time() - run.started))
        console.say(f"{state}: hardneg {run.command} to {run.owner}, started {since} ago; {kept}")
    entries = collect(opened, forget) if delete else garbage(opened, forget)
    for path, count in entries:
        console.say(f"{path.name}  {size(count)}")
    total = size(sum(count for _, count in entries))
    console.say(f"{len(entries)} folders, {total} {'removed' if delete else 'to remove with --delete'}")
