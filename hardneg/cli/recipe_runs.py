"""`hardneg recipe runs`: the runs of a finished recipe, each with its metadata, for a shared task."""

from pathlib import Path

import typer

from hardneg.cli import options
from hardneg.cli.console import say
from hardneg.cli.outputs import store_outputs
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

_OUTPUT = options.output("The folder to write: a folder for each run.", "submissions")


def runs(
    folder: Path = typer.Argument(..., help="The run folder of a finished recipe."),
    output: Path = _OUTPUT,
    overwrite: bool = options.OVERWRITE,
) -> None:
    """Write each run with its ir_metadata, as TIRA takes them: NAME/run.txt.gz and NAME/ir-metadata.yml.

    Example: hardneg recipe runs runs/star-passage-demo --output submissions
    """
    from hardneg.recipe.exported_runs import export_runs

    outputs = store_outputs("recipe runs", [Target(output, folder=True)], [folder], overwrite)
    outputs.check()
    with outputs.laid_out():
        names = export_runs(folder, output)
    say(f"{output}: {counted(len(names), 'run')}: {', '.join(names)}")
