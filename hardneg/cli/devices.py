"""`--device`: one option for all commands that compute, checked while the command line is read."""

import typer

from hardneg.cli.completion import words
from hardneg.cli.panels import MACHINE


def _checked(context: typer.Context, device: str | None) -> str | None:
    """The device as given.

    Raises:
        UsageError: there is none of that name here.
    """
    if device is not None and not context.resilient_parsing:
        from hardneg.models.devices import check_device

        check_device(device)
    return device


DEVICE = typer.Option(
    None,
    "--device",
    callback=_checked,
    help="cpu, cuda, cuda:1, mps; default: the best there is.",
    show_default=False,
    rich_help_panel=MACHINE,
    autocompletion=words("cpu", "cuda", "mps"),
)
