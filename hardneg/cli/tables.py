"""What `recipe plan` and `recipe run` print of the steps of a recipe, and what to do after a demo."""

import json
import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.artifacts import Artifact
from hardneg.cli.console import Bars, duration, measured_tables, print_table, size, stdout_console
from hardneg.layout import METRICS
from hardneg.machine import Machine
from hardneg.recipe.estimate import Estimate
from hardneg.recipe.execute import Watcher
from hardneg.recipe.plan import Step
from hardneg.reporting.table import Table
from hardneg.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.recipe.load import Recipe


def plan_table(rows: Sequence[Estimate], machine: Machine) -> None:
    """One row a step, the sum of what is to run, and what the estimates of a GPU are made from."""
    names = ["step", "stage", "state", "items", "disk", "memory", *(["GPU memory"] if machine.gpu else []), "time"]
    lines = [
        [
            row.step.name,
            row.step.verb,
            "stored" if row.cached else "to run",
            f"{row.items:,} {row.unit}",
            size(row.disk),
            size(row.memory),
            *([size(row.gpu_memory) if row.gpu_memory else ""] if machine.gpu else []),
            _time(row.seconds),
        ]
        for row in rows
    ]
    console = stdout_console()
    print_table(console, Table(names, lines, words=3), narrow="stage")
    console.print(_ahead(rows, machine), soft_wrap=True)
    if machine.gpu:
        console.print(_told(machine), soft_wrap=True)


def _ahead(rows: Sequence[Estimate], machine: Machine) -> str:
    ahead = [row for row in rows if not row.cached]
    disk, memory = sum(row.disk for row in ahead), max((row.memory for row in ahead), default=0)
    gpu = f", {size(max((row.gpu_memory for row in ahead), default=0))} on each GPU" if machine.gpu else ""
    time = _time(sum(row.seconds for row in ahead)) if ahead else "0 s"
    told = f"to run: {len(ahead)} of {len(rows)} steps, about {size(disk)} of disk"
    return f"{told}, {size(memory)} of memory{gpu}, {time}"


def _time(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else duration(seconds)


def _told(machine: Machine) -> str:
    if machine.sheet is None:
        return f"GPU {machine.gpu}: its speed is unknown here, so times of networks and of vector search are too"
    many = counted(machine.processes, "GPU")
    return f"times are for {many}, {machine.gpu}, from the data sheet: nothing was measured"


def step_watcher(console: "Console", bars: Bars, total: int) -> Watcher:
    """Prints one line a step, with what it is for, and one with what came of it."""
    count = 0

    def begins(step: Step) -> None:
        told = f": {why}" if (why := step.spec.why()) else ""
        console.print(f"[{count + 1}/{total}] {step.name}: {step.verb}{told}")

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
    from hardneg.evaluation.metrics_json import from_json

    console = stdout_console()
    if any(artifact.kind == "metrics" for artifact in artifacts.values()):
        measured_tables(console, from_json(json.loads((folder / METRICS).read_text(encoding="utf-8"))))
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            console.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)


def next_commands(recipe: "Recipe", folder: Path) -> Iterator[tuple[str, str]]:
    """After a shipped recipe's demo the most useful next things: what each is, and its command."""
    from hardneg.recipe.inheritance import read_whole_tree
    from hardneg.recipe.yaml_load import shipped_recipes

    if recipe.preset != "demo" or shipped_recipes().get(recipe.name) != recipe.source:
        return
    run = f"{_program()} recipe run {recipe.name}"
    preset = " --preset small" if "small" in read_whole_tree(recipe.source).get("presets", {}) else ""
    yield "the report", f"python3 -m webbrowser {shlex.quote(str(folder / 'report.html'))}"
    yield "a collection of your own", f"{run}{preset} --set dataset=beir:path/to/folder --output runs/mine"
    for name, spec in recipe.stages.items():
        if steps := getattr(getattr(spec, "options", None), "max_steps", None):
            yield "one thing changed", f"{run} --set stages.{name}.options.max_steps={2 * steps}"
            return


def _program() -> str:
    """How hardneg was called, if not by its name alone."""
    called = Path(sys.argv[0])
    return "hardneg" if called.name != "hardneg" or shutil.which("hardneg") else shlex.quote(str(called))
