"""`hardneg recipe verify` and `recipe runs`: a finished run beside the bands of its recipe, and its runs for others."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.cli import options
from hardneg.cli.console import aligned, say, say_answer
from hardneg.cli.options import JSON
from hardneg.cli.planned_work import store_outputs
from hardneg.cli.recipe_plan import NAME, PRESET
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.recipe.verify import Verified


def verify(
    name: str = NAME,
    folder: Path | None = typer.Argument(None, help="Its run folder; default runs/NAME-PRESET."),
    preset: str | None = PRESET,
    record: bool = typer.Option(
        False, "--record", help="Write the bands from this run, with several seeds, beside the recipe's file."
    ),
    as_json: bool = JSON,
) -> None:
    """Compare a finished run with the bands of its recipe: means and their spread over seeds.

    Exits with 1 if a value is outside its band, or if the run is of another recipe.

    Example: hardneg recipe verify star-static
    """
    from hardneg.recipe import verify as verifying
    from hardneg.recipe.language import expand
    from hardneg.recipe.run_folder import default_folder
    from hardneg.recipe.yaml_load import find_recipe

    path = find_recipe(name)
    folder = folder or default_folder(path.stem, expand(path, preset, ()).preset)
    if record:
        return say(f"bands written: {verifying.record(path, folder)}")
    verified = verifying.verify(path, folder, preset)
    say_answer(_content(verified), _lines(verified), as_json)
    if not verified.holds:
        raise typer.Exit(1)
    return None


def _content(verified: "Verified") -> dict[str, object]:
    rows = [
        {"system": row.system, "metric": row.metric, "value": row.value, "seeds": row.seeds}
        | {"low": row.low, "high": row.high, "inside": row.inside}
        for row in verified.checked
    ]
    return {
        "holds": verified.holds,
        "device": verified.device,
        "values": rows,
        "differences": list(verified.differences),
    }


def _lines(verified: "Verified") -> list[str]:
    rows = [
        (
            f"{row.system}, {row.metric}",
            f"{row.value:.4f}  band [{row.low:.4f}, {row.high:.4f}]{'' if row.inside else '  OUTSIDE'}",
        )
        for row in verified.checked
    ]
    outside = sum(not row.inside for row in verified.checked)
    summary = f"{len(rows) - outside} of {len(rows)} values inside their bands ({verified.device})"
    differ = f"; {len(verified.differences)} differences from the recipe:" if verified.differences else ""
    return [*aligned(rows), summary + differ, *(f"  {line}" for line in verified.differences)]


_OUTPUT = options.output("The folder to write: a folder for each run.", "submissions")


def runs(
    folder: Path = typer.Argument(..., help="The run folder of a finished recipe."),
    output: Path = _OUTPUT,
    overwrite: bool = options.OVERWRITE,
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
