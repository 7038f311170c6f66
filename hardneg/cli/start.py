"""`hardneg start`: from a folder to a recipe that fits what it holds."""

from pathlib import Path
from shlex import quote

import typer

from hardneg.cli.console import say
from hardneg.cli.options import DEVICE, OVERWRITE, STORE, output
from hardneg.records import LOCAL, HardnegError
from hardneg.store import Target, replace_text


def start(
    folder: Path = typer.Argument(..., metavar="FOLDER", help="Documents, maybe with queries, maybe with judgements."),
    model: str | None = typer.Option(None, help="Where training begins; by default a static table."),
    glob: str | None = typer.Option(None, help="Which documents are read, such as 'guide/**/*.md'; by default all."),
    run: bool = typer.Option(False, "--run", help="Run the recipe too, into runs/NAME."),
    output: Path | None = output("The recipe to write; default NAME.yaml, after the folder.", None),
    overwrite: bool = OVERWRITE,
    store: Path | None = STORE,
    device: str | None = DEVICE,
) -> None:
    """Look at a folder, say what can be trained from it, and write the recipe.

    Documents alone, queries beside them, or judgements too: in a form that a dataset of hardneg reads.

    Example: hardneg start docs --run
    """
    from hardneg.cli.options import tell_once
    from hardneg.cli.planned_work import command_outputs, opened
    from hardneg.cli.recipe import run as run_recipe
    from hardneg.functions.adhoc_recipe import planned_recipe
    from hardneg.functions.starting import Beginning, takes
    from hardneg.recipes import estimate

    beginning = Beginning.of(folder, glob, model)
    (recipe, results), session = beginning.paths(output, run), opened(store, device)
    command = f"hardneg recipe run {quote(str(recipe))}"
    target = Target(recipe, use=f"`{command}` runs it as it is")
    outputs = command_outputs("start", [target], [beginning.contents.folder], session.store, overwrite)
    outputs.check()
    say("\n".join(beginning.sentences()))
    with outputs.laid_out():
        replace_text(recipe, beginning.recipe(recipe))
    problems: list[HardnegError] = []
    plan = planned_recipe(str(recipe), None, [], tell_once, problems)
    say(f"{recipe}: written; {takes(estimate(plan, session.store))}")
    if problems:
        raise problems[0]
    if run:
        run_recipe(str(recipe), None, [], None, [], results, overwrite, store, device, LOCAL, [])
    else:
        say(f"run it: {command} --output {quote(str(results))}")
