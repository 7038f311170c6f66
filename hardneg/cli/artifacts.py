"""`hardneg artifacts`: what is in the store, why a step would run, and making room."""

from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.printing import JSON, say, say_json
from hardneg.cli.recipe import PRESET, SET
from hardneg.cli.stores import STORE, open_store

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact
    from hardneg.errors import ArtifactError
    from hardneg.roots import Unfinished

app = typer.Typer(help="The store: what it holds, why a step runs, making room.", no_args_is_help=True)


@app.command("list")
def list_(store: Path | None = STORE, as_json: bool = JSON) -> None:
    """List the finished artifacts: key, kind, stage, size.

    Example: hardneg artifacts list --json
    """
    from hardneg.cli.console import size

    rows = [_row(item) for item in open_store(store).artifacts()]
    if as_json:
        say_json(rows, indent=1)
        return
    for row in rows:
        if "damaged" in row:
            say(f"damaged: {row['damaged']}")
        else:
            say(f"{row['key']}  {row['kind']:<10}  {row['name']:<16}  {size(row['bytes'])}")


def _row(item: "Artifact | ArtifactError") -> dict[str, Any]:
    if not isinstance(item, Exception):
        total = sum(path.stat().st_size for path in item.path.rglob("*") if path.is_file())
        kind, name = item.kind, item.origin["name"]
        return {"key": item.key, "kind": kind, "name": name, "bytes": total, "path": str(item.path)}
    return {"damaged": str(item)}


@app.command()
def why(
    stage: str = typer.Argument(help="A stage of the recipe.", autocompletion=completion.stages),
    recipe: str = typer.Option("star-passage", help="The recipe's name or path.", autocompletion=completion.recipes),
    preset: str | None = PRESET,
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Say why a stage would run: what differs from the most like artifact that is there.

    Example: hardneg artifacts why star --recipe star-passage --set stages.star.options.epochs=2
    """
    from hardneg.recipe.load import load_recipe
    from hardneg.recipe.plan import explain, make_plan
    from hardneg.recipe.reading import find_recipe

    plan = make_plan(load_recipe(find_recipe(recipe), preset, settings))
    for line in explain(plan.until(stage)[-1], open_store(store)):
        say(line)


@app.command()
def gc(
    delete: bool = typer.Option(False, "--delete", help="Remove them; without it they are only listed."),
    forget: bool = typer.Option(False, "--forget-unfinished", help="Also what only stopped runs have made."),
    store: Path | None = STORE,
) -> None:
    """List or remove what no result uses that is there, no unfinished run, and no process.

    A run that was stopped keeps what it has made until the same command finishes, or until it is forgotten.

    Example: hardneg artifacts gc
    """
    from hardneg.cli.console import size
    from hardneg.roots import collect, garbage, unfinished

    opened = open_store(store)
    for run in unfinished(opened):
        say(_unfinished_line(run, forget, delete))
    found = collect(opened, forget) if delete else garbage(opened, forget)
    for path, count in found:
        say(f"{path.name}  {size(count)}")
    total = size(sum(count for _, count in found))
    say(f"{len(found)} folders, {total} {'removed' if delete else 'to remove with --delete'}")


def _unfinished_line(run: "Unfinished", forget: bool, delete: bool) -> str:
    from hardneg.cli.console import duration

    begun = f"hardneg {run.command} to {run.owner}, begun {duration(max(0.0, time() - run.begun))} ago"
    if run.running:
        return f"running: {begun}; what it makes is kept"
    if not forget:
        return f"unfinished: {begun}; what it has made is kept; --forget-unfinished lets it go"
    return f"unfinished: {begun}; {'forgotten' if delete else 'to forget with --delete'}"
