"""What `recipe plan` and `recipe run` print."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.artifacts import Artifact
from hardneg.cli.console import Bars, duration, size, stdout_console, table
from hardneg.recipe.estimate import Estimate
from hardneg.recipe.execute import Watcher
from hardneg.recipe.plan import Step

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod


def plan_table(rows: Sequence[Estimate]) -> None:
    """One row a step, and the sum of what is to run."""
    shown = table()
    for title in ("step", "stage", "state", "items", "disk", "memory", "time"):
        side: JustifyMethod = "left" if title in {"step", "stage", "state"} else "right"
        shown.add_column(title, justify=side, no_wrap=title != "stage", overflow="ellipsis")
    for row in rows:
        shown.add_row(
            row.step.name,
            row.step.verb,
            "stored" if row.cached else "to run",
            f"{row.items:,} {row.unit}",
            size(row.disk),
            size(row.memory),
            duration(row.seconds),
        )
    console = stdout_console()
    console.print(shown)
    ahead = [row for row in rows if not row.cached]
    disk, memory = sum(row.disk for row in ahead), max((row.memory for row in ahead), default=0)
    time = duration(sum(row.seconds for row in ahead)) if ahead else "0 s"
    console.print(
        f"to run: {len(ahead)} of {len(rows)} steps, about {size(disk)} of disk, {size(memory)} of memory, {time}"
    )


def step_watcher(console: "Console", bars: Bars, total: int) -> Watcher:
    """Prints one line a step."""
    count = 0

    def begins(step: Step) -> None:
        console.print(f"[{count + 1}/{total}] {step.name}: {step.verb}")

    def ends(step: Step, artifact: Artifact, seconds: float | None) -> None:
        nonlocal count
        count += 1
        if seconds is None:
            console.print(f"[{count}/{total}] {step.name}: in the store")
        else:
            facts = ", ".join(f"{key} {value}" for key, value in artifact.facts.items() if _is_short(key, value))
            console.print(f"    {duration(seconds)}{f'; {facts}' if facts else ''}")

    return Watcher(begins, ends, bars)


def _is_short(key: str, value: object) -> bool:
    return key != "seconds" and isinstance(value, int | str) and not isinstance(value, bool)


def result_table(folder: Path, artifacts: Mapping[str, Artifact]) -> None:
    """The report's table on stdout, and where the results are."""
    console = stdout_console()
    if any(artifact.kind == "metrics" for artifact in artifacts.values()):
        from hardneg.cli.render import metrics_tables

        metrics_tables(console, json.loads((folder / "metrics.json").read_text(encoding="utf-8")))
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            console.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)
