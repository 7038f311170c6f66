"""`hardneg diagnose`: why a training did not help, or made things worse."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.cli.console import aligned, say_answer
from hardneg.cli.options import JSON, STORE
from hardneg.records.wording import counted

if TYPE_CHECKING:
    from hardneg.diagnosis.diagnose import Diagnosis


def diagnose(
    folder: Path = typer.Argument(..., metavar="RUNFOLDER", help="The folder of a finished recipe."),
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Check why a training did not help, or made things worse: figures, and what to change.

    Exits with 0 whatever the checks say. What the store lacks is named, and not checked.

    Example: hardneg diagnose runs/star-passage-demo
    """
    from hardneg.diagnosis.diagnose import diagnose

    diagnosis = diagnose(folder, store)
    say_answer(diagnosis.to_dict(), _lines(diagnosis), as_json)


def _lines(diagnosis: "Diagnosis") -> Iterator[str]:
    rows, states = list[tuple[str, str]](), ("suspect", "unknown", "fine")
    for each in sorted(diagnosis.results, key=lambda each: states.index(each.state)):
        subject = f" ({each.subject})" if each.subject else ""
        rows.append((each.state, f"{each.check}{subject}: {each.sentence}"))
        rows += [("", f"-> {each.advice}")] if each.advice else []
    yield from aligned(rows)
    unknown = sum(each.state == "unknown" for each in diagnosis.results)
    summary = f"{len(diagnosis.suspect)} of {counted(len(diagnosis.results), 'check', 'checks')} suspect"
    yield f"{summary}, {unknown} unknown"
