"""`hardneg recipe plan`: what a recipe takes, here or on machines that are named."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import say, say_json
from hardneg.cli.doctor import memory
from hardneg.cli.options import JSON, MACHINE, PROCESSES, STORE, open_store, output, tell_once
from hardneg.cli.outputs import free_bytes
from hardneg.cli.planned_work import plan_outputs
from hardneg.cli.recipe_options import NAME, PRESET, SET, check_stages, headline, planned
from hardneg.records.errors import HardnegError, UsageError
from hardneg.records.layout import LOCK
from hardneg.store.artifacts import Store
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.costs.machine import Machine
    from hardneg.lines.base import Plannable
    from hardneg.recipe.estimate import Estimate
    from hardneg.recipe.plan import Plan

_MACHINES = typer.Option(1, min=1, help="Plan for this many machines.", rich_help_panel=MACHINE)
_GPUS = typer.Option(None, min=1, help="Plan for this many GPUs in each machine.", rich_help_panel=MACHINE)
_RATES = typer.Option(
    None,
    help="A GPU by its data sheet, such as h100, or a file of rates; default: this machine's.",
    rich_help_panel=MACHINE,
    show_default=False,
)
_OUTPUT = output("The run folder, as in `recipe run`; checks that it can be written.", None)
_PRICE = typer.Option(None, min=0, help="The price of a GPU per hour, in your currency.", rich_help_panel=MACHINE)


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
    """All that is printed of a plan; price: of a GPU's hour, 0 where only others charge, None where nothing is paid."""

    plan: "Plan"
    rows: "Sequence[Estimate]"
    machine: "Machine"
    price: float | None
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
    machines: int = _MACHINES,
    gpus: int | None = _GPUS,
    rates: str | None = _RATES,
    price: float | None = _PRICE,
    folder: Path | None = _OUTPUT,
    store: Path | None = STORE,
    processes: int | None = PROCESSES,
    as_json: bool = JSON,
) -> None:
    """Show each step, in the store or to run, with an estimate of what it takes, here or on other machines.

    Example: hardneg recipe plan star-passage --preset paper --rates h100 --machines 2 --gpus 8
    """
    from hardneg.costs.machine import named

    where = _where(named(rates, machines, gpus), processes if gpus is None else None, price)
    if gpus is not None and processes is not None:
        raise UsageError("--gpus and --num-processes: each GPU has a process: leave out --num-processes")
    problems: list[HardnegError] = []
    plan, opened = planned(name, preset, settings, problems), open_store(store)
    check_stages(plan, until)
    if folder is not None:
        run_outputs(plan, opened, folder, overwrite=False).check()
    if not as_json:
        say(headline(plan))
    overview = _planned(plan, opened, until, documents, where)
    price = overview.price if price is None else price
    overview = replace(overview, price=price, problems=[*map(str, problems), *_packages(plan)])
    if as_json:
        return say_json(_content(overview), indent=1)
    _tell(overview, until)


def run_outputs(plan: "Plan", opened: Store, folder: Path, overwrite: bool) -> Outputs:
    """The run folder of a plan."""
    from hardneg.recipe.run_folder import COMMAND, names

    target = Target(folder, folder=True, names=names(plan), marked_by=LOCK)
    return plan_outputs(COMMAND, plan, opened, [target], overwrite)


def show_plan(recipe: "Plannable", workplace: "Workplace", as_json: bool) -> None:
    """The plan of a command that makes its recipe itself, here, and how to make it shorter."""
    from hardneg.costs.machine import named

    plan = recipe.plan(tell_once)
    overview = replace(_planned(plan, workplace.store, None, None, named(None, 1, None)), problems=_packages(plan))
    if as_json:
        return say_json(_content(overview), indent=1)
    _tell(overview, None)
    if not any(setting.startswith("model.document_length=") for setting in workplace.settings):
        say("less work, by reading less of each document: --set model.document_length=128")


def _where(machine: "Machine", processes: int | None, price: float | None) -> "Machine":
    """With so many processes in all, if that is said.

    Raises:
        UsageError: there is nothing that the price is of, or fewer processes than machines.
    """
    if price is not None and not machine.gpu:
        raise UsageError("--price is a GPU's, and this plan has none: give --rates, such as h100, or leave it out")
    if processes is not None and processes < machine.machines:
        raise UsageError(f"--num-processes {processes}: fewer than --machines {machine.machines}")
    return machine if processes is None else replace(machine, processes=processes)


def _planned(plan: "Plan", store: Store, until: str | None, documents: int | None, machine: "Machine") -> Planned:
    from hardneg.recipe.estimate import Room, estimate, too_large

    rows = estimate(plan, store, until, machine, documents)
    here = machine.here
    room = Room(free_bytes(store.root) if here else None, memory()[0] if here else None)
    price = 0.0 if any(row.charge for row in rows) else None
    return Planned(plan, rows, machine, price, list(too_large(rows, machine, room)), ())


def _packages(plan: "Plan") -> list[str]:
    from hardneg.recipe.needs import packages

    return [need.missing for need in packages(plan) if need.missing]


def _tell(overview: Planned, until: str | None) -> None:
    from hardneg.cli.contracts import override_lines
    from hardneg.cli.plan_tables import plan_table
    from hardneg.records.layout import START

    plan_table(overview.rows, overview.machine, overview.price, overview.plan.recipe.copies)
    for line in overview.too_large:
        say(f"too large: {line}")
    if any(START in step.inputs.values() for step in overview.plan.until(until)):
        for line in override_lines(overview.plan.recipe.model):
            say(line)
    for problem in overview.problems:
        say(f"before it can run: {problem}")


def _content(overview: Planned) -> dict[str, Any]:
    """All of it, for `--json`; null for times that are unknown."""
    ahead = [row for row in overview.rows if not row.cached]
    machine, copies = overview.machine, overview.plan.recipe.copies
    seed_copies = {copy: {"of": name, "seed": seed} for name, seeds in copies.items() for seed, copy in seeds.items()}
    where = {"device": machine.rates.device, "gpu": machine.rates.gpu, "measured": machine.rates.date or None}
    summed = ("disk", "sent", "seconds", "gpu_hours")
    total = {name: _number(sum(getattr(row, name) for row in ahead)) for name in summed}
    cost = {} if overview.price is None else {"cost": _number(sum(row.cost(overview.price) for row in ahead))}
    return {
        "recipe": overview.plan.recipe.name,
        "preset": overview.plan.recipe.preset,
        "machine": {**where, "machines": machine.machines, "processes": machine.processes},
        "steps": [_line(row, overview.price) | seed_copies.get(row.step.name, {}) for row in overview.rows],
        "to run": {**total, **cost},
        "too large": list(overview.too_large),
        "before it can run": list(overview.problems),
    }


def _line(row: "Estimate", price: float | None) -> dict[str, Any]:
    counts = {name: getattr(row, name) for name in ("items", "unit", "disk", "memory", "gpu_memory", "sent", "gpus")}
    times = {"seconds": _number(row.seconds), "from": list(row.seconds.bases), "gpu_hours": _number(row.gpu_hours)}
    cost = {} if price is None else {"cost": _number(row.cost(price))}
    cost |= {"requests": row.requests, "tokens": row.tokens} if row.requests else {}
    return {"step": row.step.name, "stage": row.step.verb, "stored": row.cached, **counts, **times, **cost}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)
