"""What `recipe run` prints of the steps of a recipe, and what to do after a demo."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.cli.console import Bars, measured_tables, stdout_console
from hardneg.recipe.execute import Watcher
from hardneg.recipe.plan import Step
from hardneg.records.layout import METRICS
from hardneg.records.wording import duration
from hardneg.store.artifacts import Artifact

if TYPE_CHECKING:
    from rich.console import Console

    from hardneg.recipe.load import Recipe


def step_watcher(console: "Console", bars: Bars, total: int) -> Watcher:
    """Prints one line a step, with what it is for, and one with its result."""
    count = 0

    def begins(step: Step) -> None:
        reason = f": {why}" if (why := step.spec.why()) else ""
        console.print(f"[{count + 1}/{total}] {step.name}: {step.verb}{reason}")

    def ends(step: Step, artifact: Artifact, seconds: float | None) -> None:
        nonlocal count
        count += 1
        if seconds is None:
            console.print(f"[{count}/{total}] {step.name}: in the store")
        else:
            facts = ", ".join(
                f"{key} {value}"
                for key, value in artifact.facts.items()
                if key != "seconds" and isinstance(value, int | str) and not isinstance(value, bool)
            )
            console.print(f"    {duration(seconds)}{f'; {facts}' if facts else ''}")

    return Watcher(begins, ends, bars)


def result_table(folder: Path, artifacts: Mapping[str, Artifact]) -> None:
    """The report's table on stdout, and where the results are."""
    from hardneg.evaluation.metrics_json import from_json

    console = stdout_console()
    if any(artifact.artifact_type == "metrics" for artifact in artifacts.values()):
        measured_tables(console, from_json(json.loads((folder / METRICS).read_text(encoding="utf-8"))))
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            console.print(f"  {path}{'/' if path.is_dir() else ''}", soft_wrap=True)


def next_commands(recipe: "Recipe", folder: Path, settings: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """After a shipped recipe's demo the most useful next things: what each is, and its command.

    settings: what was set in the recipe that has run, and so is set again.
    """
    from hardneg.recipe.language import preset_names
    from hardneg.recipe.yaml_load import is_shipped

    if recipe.preset != "demo" or not is_shipped(recipe.source):
        return
    run = f"{_program()} recipe run {recipe.name}"
    preset = " --preset small" if "small" in preset_names(recipe.source) else ""
    yield "the report", f"python3 -m webbrowser {shlex.quote(str(folder / 'report.html'))}"
    if not any(setting.startswith("dataset") for setting in settings):
        yield "a collection of your own", f"{run}{preset} --set dataset=beir:path/to/folder --output runs/mine"
    run += "".join(f" --set {shlex.quote(setting)}" for setting in settings)
    written = {copy: stage for stage, copies in recipe.copies.items() for copy in copies.values()}
    for name, spec in recipe.stages.items():
        if steps := getattr(getattr(spec, "options", None), "max_steps", None):
            yield "one thing changed", f"{run} --set stages.{written.get(name, name)}.options.max_steps={2 * steps}"
            return


def _program() -> str:
    """How hardneg was called, if not by its name alone."""
    called = Path(sys.argv[0])
    return "hardneg" if called.name != "hardneg" or shutil.which("hardneg") else shlex.quote(str(called))
