"""`hardneg index merge`: several flat indexes as one."""

from pathlib import Path

import typer

from hardneg.cli import options
from hardneg.cli.console import bars, say
from hardneg.cli.outputs import store_outputs
from hardneg.records.wording import counted
from hardneg.store.atomic_write import replacing_folder
from hardneg.store.replaced_files import Target


def merge(
    indexes: list[Path] = typer.Argument(..., help="The folders of flat indexes, in the order of the result's rows."),
    in_shards: bool = typer.Option(
        False, "--in-shards", help="Make each a shard of one index, which copies nothing, instead of one file."
    ),
    output: Path = options.OUTPUT_FOLDER,
    overwrite: bool = options.OVERWRITE,
) -> None:
    """Merge flat indexes, of hardneg or of Pyserini, into one; a single index in shards becomes one file.

    Example: hardneg index merge first second third --output index
    """
    from hardneg.formats.merging import merge_flat, merge_in_shards, open_flat

    outputs = store_outputs("index merge", [Target(output, folder=True)], indexes, overwrite)
    outputs.check()
    opened = open_flat(indexes)
    with outputs.laid_out(), replacing_folder(output) as aside:
        count = merge_in_shards(opened, aside) if in_shards else merge_flat(opened, aside, bars())
    say(f"{output}: {counted(count, 'vector')} of dimension {opened[0].dimension}")
