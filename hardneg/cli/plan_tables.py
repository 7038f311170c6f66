"""What `recipe plan` prints: a row a step, their sum, and what the times come from."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardneg.cli.console import print_table, stdout_console
from hardneg.costs.estimated_seconds import EstimatedSeconds
from hardneg.costs.machine import Machine
from hardneg.recipe.estimate import Estimate
from hardneg.records.wording import counted, duration, size
from hardneg.report.table import Table

_MEANING = {
    "measured": "measured on this machine",
    "stated": "as the file of rates says",
    "data sheet": "from the data sheet, nothing was measured",
    "guess": "assumed, not measured anywhere",
    "unknown": "not known",
}


Copies = Mapping[str, Mapping[int, str]]
"""Of each stage that is made once a seed, its names by seed."""


def plan_table(
    rows: Sequence[Estimate], machine: Machine, price: float | None = None, copies: Copies | None = None
) -> None:
    """One row a step, what is asked of GPUs and networks, the sum of what is to run, and what the times are made from.

    What is made once a seed has one row, with the counts and times of all seeds. The two tables stand by themselves:
    together they would be wider than a terminal.
    """
    console = stdout_console()
    step_lines = list(_lines(rows, copies or {}))
    shown = [line.sum for line in step_lines]
    for words, columns in ((3, dict(_columns(step_lines))), (1, dict(_beyond(shown, machine, price)))):
        if len(columns) > 1:
            lines = [list(line) for line in zip(*columns.values(), strict=True)]
            print_table(console, Table(list(columns), lines, words=words), narrow="stage" if words > 1 else "step")
    for line in (*_sources(rows, machine), _ahead(rows, machine, price)):
        console.print(line, soft_wrap=True)


@dataclass(frozen=True)
class _Line:
    """What one row tells of a step, or of all seeds' copies of one."""

    sum: Estimate
    state: str


def _lines(rows: Sequence[Estimate], copies: Copies) -> Iterator[_Line]:
    """A line a step, and one for all copies of a step, where the first of them stands."""
    stage_of = {copy: name for name, seeds in copies.items() for copy in seeds.values()}
    groups: dict[str, list[Estimate]] = {}
    for row in rows:
        groups.setdefault(stage_of.get(row.step.name, row.step.name), []).append(row)
    for name, group in groups.items():
        stored = sum(row.cached for row in group)
        state = "stored" if stored == len(group) else f"{stored} of {len(group)} stored" if stored else "to run"
        yield _Line(_summed(f"{name} x {counted(len(group), 'seed')}" if name in copies else name, group), state)


def _summed(name: str, group: Sequence[Estimate]) -> Estimate:
    """Steps that run one after the other, as one."""
    first, step = group[0], replace(group[0].step, name=name)
    summed = ("items", "disk", "sent", "charge", "requests", "tokens")
    totals = {field: sum(getattr(row, field) for row in group) for field in summed}
    most = {field: max(getattr(row, field) for row in group) for field in ("memory", "gpu_memory")}
    seconds = sum((row.seconds for row in group), EstimatedSeconds.of(0))
    return replace(first, step=step, cached=all(row.cached for row in group), seconds=seconds, **totals, **most)


def _columns(lines: Sequence[_Line]) -> Iterator[tuple[str, list[str]]]:
    rows = [line.sum for line in lines]
    yield "step", [row.step.name for row in rows]
    yield "stage", [row.step.verb for row in rows]
    yield "state", [line.state for line in lines]
    yield "items", [f"{row.items:,} {row.unit}" for row in rows]
    yield "disk", [size(row.disk) for row in rows]
    yield "memory", [size(row.memory) for row in rows]
    yield "time", [_time(row.seconds) for row in rows]


def _beyond(rows: Sequence[Estimate], machine: Machine, price: float | None) -> Iterator[tuple[str, list[str]]]:
    """Notes on GPUs, on several machines, and on times that do not all come from one source."""
    yield "step", [row.step.name for row in rows]
    if machine.gpu:
        yield "GPU memory", [size(row.gpu_memory) if row.gpu_memory else "" for row in rows]
    if machine.machines > 1:
        yield "between machines", [size(row.sent) if row.sent else "" for row in rows]
    if machine.gpu:
        yield "GPU hours", [_hours(row.gpu_hours) if row.gpus else "" for row in rows]
    for name in ("requests", "tokens"):
        if any(getattr(row, name) for row in rows):
            yield name, [f"{count:,}" if (count := getattr(row, name)) else "" for row in rows]
    if price is not None:
        yield "cost", [_amount(row.cost(price)) if row.gpus or row.charge else "" for row in rows]
    if len(_bases(rows)) > 1:
        yield "time from", [", ".join(row.seconds.bases) for row in rows]


def _bases(rows: Sequence[Estimate]) -> list[str]:
    """All that times are foretold from."""
    return list(dict.fromkeys(base for row in rows for base in row.seconds.bases))


def _ahead(rows: Sequence[Estimate], machine: Machine, price: float | None) -> str:
    ahead = [row for row in rows if not row.cached]
    parts = [f"to run: {len(ahead)} of {len(rows)} steps, about {size(sum(row.disk for row in ahead))} of disk"]
    parts.append(f"{size(max((row.memory for row in ahead), default=0))} of memory")
    if machine.gpu:
        parts.append(f"{size(max((row.gpu_memory for row in ahead), default=0))} on each GPU")
    if machine.machines > 1:
        parts.append(f"{size(sum(row.sent for row in ahead))} between machines")
    if machine.gpu:
        parts.append(f"{_hours(sum(row.gpu_hours for row in ahead))} GPU hours")
    if requests := sum(row.requests for row in ahead):
        parts.append(f"{counted(requests, 'request')} of about {sum(row.tokens for row in ahead):,} tokens")
    if price is not None:
        parts.append(f"cost {_amount(sum(row.cost(price) for row in ahead))}")
    parts.append(_time(sum(row.seconds for row in ahead)) if ahead else "0 s")
    return ", ".join(parts)


def _sources(rows: Sequence[Estimate], machine: Machine) -> Iterator[str]:
    """Which machines are planned for, and what the words of the column `time from` mean."""
    bases = _bases(rows)
    if machine.gpu or machine.machines > 1 or machine.rates.date:
        spread = f" in {counted(machine.machines, 'machine')}" if machine.machines > 1 and machine.gpu else ""
        many = counted(machine.devices, "GPU" if machine.gpu else "machine")
        date = f", rates of {machine.rates.date}" if machine.rates.date else ""
        yield f"times are for {many}{spread}, {machine.rates.device}{date}"
    if "unknown" in bases:
        yield f"GPU {machine.gpu}: its speed is unknown here, so times of networks and of vector search are too"
    if parts := [f"{base}: {_MEANING[base]}" for base in bases if base != "unknown"]:
        yield "; ".join(parts)


def _time(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else duration(seconds)


def _hours(hours: float) -> str:
    return "unknown" if math.isnan(hours) else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"


def _amount(cost: float) -> str:
    return "unknown" if math.isnan(cost) else f"{cost:,.2f}"
