"""`hardneg recipe plan`: the steps of a recipe, their keys, which are in the store, items and bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import say, say_json
from hardneg.cli.options import JSON, STORE, open_store, output, tell_once
from hardneg.cli.planned_work import free_bytes, plan_outputs
from hardneg.cli.recipe_options import NAME, PRESET, SET, check_stages, headline, planned
from hardneg.records.errors import HardnegError
from hardneg.records.layout import LOCK
from hardneg.store.artifacts import Store
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.estimate import Estimate
    from hardneg.recipe.plan import Plan

_OUTPUT = output("The run folder, as in `recipe run`; checks that it can be written.", None)


def _count(text: str) -> int:
    """`1e9` and `1_000_000` too."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number < 1e15 or number != int(number):
        raise typer.BadParameter(f"{text!r}: must be a whole number above 0, such as 1e9")
    return int(number)


@dataclass(frozen=True)
class Planned:
    """All that is printed of a plan."""

    plan: "Plan"
    rows: "Sequence[Estimate]"
    too_large: Sequence[str]
    problems: Sequence[str]


def plan(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Only what this stage needs.", autocompletion=completion.stages),
    documents: int | None = typer.Option(
        None, parser=_count, metavar="N", help="Plan for N documents, such as 1e9, with none of them in the store."
    ),
    folder: Path | None = _OUTPUT,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show each step, in the store or to run, with its key, its items and its bytes.

    Seconds are told where the store has a step like it: of the same stage and options, dataset and start model.

    Example: hardneg recipe plan star-passage --preset paper
    """
    problems: list[HardnegError] = []
    plan, opened = planned(name, preset, settings, problems), open_store(store)
    check_stages(plan, until)
    if folder is not None:
        run_outputs(plan, opened, folder, overwrite=False).check()
    if not as_json:
        say(headline(plan))
    overview = _planned(plan, opened, [*map(str, problems), *_packages(plan)], until, documents)
    if as_json:
        return say_json(_content(overview), indent=1)
    _tell(overview, until)


def run_outputs(plan: "Plan", opened: Store, folder: Path, overwrite: bool) -> Outputs:
    """The run folder of a plan."""
    from hardneg.recipe.run_folder import COMMAND, names

    target = Target(folder, folder=True, names=names(plan), marked_by=LOCK)
    return plan_outputs(COMMAND, plan, opened, [target], overwrite)


def show_plan(recipe: Any, workplace: "Workplace", as_json: bool) -> None:
    """The plan of a command that makes its recipe itself, here, and how to make it shorter."""
    plan = recipe.plan(tell_once)
    overview = _planned(plan, workplace.store, _packages(plan))
    if as_json:
        return say_json(_content(overview), indent=1)
    _tell(overview, None)
    if not any(setting.startswith("model.document_length=") for setting in workplace.settings):
        say("less work, by reading less of each document: --set model.document_length=128")


def _planned(
    plan: "Plan", store: Store, problems: Sequence[str], until: str | None = None, documents: int | None = None
) -> Planned:
    from hardneg.recipe.estimate import estimate, no_room

    rows = estimate(plan, store, until, documents)
    return Planned(plan, rows, list(no_room(rows, free_bytes(store.root))), problems)


def _packages(plan: "Plan") -> list[str]:
    from hardneg.recipe.needs import packages

    return [need.missing for need in packages(plan) if need.missing]


def _tell(overview: Planned, until: str | None) -> None:
    from hardneg.cli.contracts import override_lines
    from hardneg.cli.plan_tables import plan_table
    from hardneg.records.layout import START

    plan_table(overview.rows, overview.plan.recipe.copies)
    for line in overview.too_large:
        say(f"too large: {line}")
    if any(START in step.inputs.values() for step in overview.plan.until(until)):
        for line in override_lines(overview.plan.recipe.models.of(overview.plan.recipe.model)):
            say(line)
    for problem in overview.problems:
        say(f"before it can run: {problem}")


def _content(overview: Planned) -> dict[str, Any]:
    """All of it, for `--json`; null for times that are not known."""
    copies = overview.plan.recipe.copies
    seed_copies = {copy: {"of": name, "seed": seed} for name, seeds in copies.items() for seed, copy in seeds.items()}
    ahead = [row for row in overview.rows if not row.cached]
    return {
        "recipe": overview.plan.recipe.name,
        "preset": overview.plan.recipe.preset,
        "steps": [_line(row) | seed_copies.get(row.step.name, {}) for row in overview.rows],
        "to run": {"steps": len(ahead), "disk": sum(row.disk for row in ahead), **_charged(ahead)},
        "too large": list(overview.too_large),
        "before it can run": list(overview.problems),
    }


def _line(row: "Estimate") -> dict[str, Any]:
    counts = {name: getattr(row, name) for name in ("items", "unit", "disk", "seconds")}
    like = {"like": row.like.key if row.like else None}
    of_server = {"requests": row.requests, "tokens": row.tokens} if row.requests else {}
    named = {"step": row.step.name, "stage": row.step.verb, "key": row.step.key, "stored": row.cached}
    return {**named, **counts, **like, **_charged([row]), **of_server}


def _charged(rows: "Sequence[Estimate]") -> dict[str, float]:
    """The charge of servers, where there is one."""
    charge = sum(row.charge for row in rows)
    return {"cost": round(charge, 4)} if charge else {}
