"""The tables that `recipe plan` prints: a row a step, and their sum."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardneg.cli.console import print_table, stdout_console
from hardneg.recipe.estimate import Estimate
from hardneg.records.wording import counted, duration, size
from hardneg.report.table import Table

Copies = Mapping[str, Mapping[int, str]]
"""Of each stage that is made once a seed, its names by seed."""
_SHOWN = 8  # letters of a key


def plan_table(rows: Sequence[Estimate], copies: Copies | None = None) -> None:
    """Print one row a step, notes on servers and steps like them, and the sum of all that is to run.

    A stage that is made once a seed has one row, with the counts of all seeds. The two tables stand by themselves:
    together they would be wider than a terminal.
    """
    console = stdout_console()
    lines = list(_lines(rows, copies or {}))
    for words, columns in ((4, dict(_columns(lines))), (1, dict(_beyond(lines)))):
        if len(columns) > 1:
            cells = [list(line) for line in zip(*columns.values(), strict=True)]
            print_table(console, Table(list(columns), cells, words=words), narrow="stage" if words > 1 else "step")
    console.print(_ahead(rows), soft_wrap=True)


@dataclass(frozen=True)
class _Line:
    """One row: a step, or all seeds' copies of one."""

    sum: Estimate
    state: str
    key: str
    seconds: float


def _lines(rows: Sequence[Estimate], copies: Copies) -> Iterator[_Line]:
    """A line a step, and one for all copies of a step, where the first of them stands."""
    stage_of = {copy: name for name, seeds in copies.items() for copy in seeds.values()}
    groups: dict[str, list[Estimate]] = {}
    for row in rows:
        groups.setdefault(stage_of.get(row.step.name, row.step.name), []).append(row)
    for name, group in groups.items():
        stored = sum(row.cached for row in group)
        state = "stored" if stored == len(group) else f"{stored} of {len(group)} stored" if stored else "to run"
        label = f"{name} x {counted(len(group), 'seed')}" if name in copies else name
        key = group[0].step.key[:_SHOWN] if len(group) == 1 else f"{len(group)} keys"
        yield _Line(_summed(label, group), state, key, sum(row.seconds or 0.0 for row in group))


def _summed(name: str, group: Sequence[Estimate]) -> Estimate:
    """Steps that run one after the other, as one."""
    first, step = group[0], replace(group[0].step, name=name)
    summed = ("items", "disk", "charge", "requests", "tokens")
    totals = {field: sum(getattr(row, field) for row in group) for field in summed}
    return replace(first, step=step, cached=all(row.cached for row in group), **totals)


def _columns(lines: Sequence[_Line]) -> Iterator[tuple[str, list[str]]]:
    rows = [line.sum for line in lines]
    yield "step", [row.step.name for row in rows]
    yield "stage", [row.step.verb for row in rows]
    yield "state", [line.state for line in lines]
    yield "key", [line.key for line in lines]
    yield "items", [f"{row.items:,} {row.unit}" for row in rows]
    yield "disk", [size(row.disk) for row in rows]


def _beyond(lines: Sequence[_Line]) -> Iterator[tuple[str, list[str]]]:
    """Columns that only some plans have: requests, and the time that a step like it took."""
    rows = [line.sum for line in lines]
    yield "step", [row.step.name for row in rows]
    for name in ("requests", "tokens"):
        if any(getattr(row, name) for row in rows):
            yield name, [f"{count:,}" if (count := getattr(row, name)) else "" for row in rows]
    if any(row.charge for row in rows):
        yield "cost", [f"{row.charge:,.2f}" if row.charge else "" for row in rows]
    if any(line.seconds for line in lines):
        yield "a step like it took", [duration(line.seconds) if line.seconds else "" for line in lines]


def _ahead(rows: Sequence[Estimate]) -> str:
    ahead = [row for row in rows if not row.cached]
    parts = [f"to run: {len(ahead)} of {len(rows)} steps, about {size(sum(row.disk for row in ahead))} of disk"]
    if requests := sum(row.requests for row in ahead):
        parts.append(f"{counted(requests, 'request')} of about {sum(row.tokens for row in ahead):,} tokens")
    if charge := sum(row.charge for row in ahead):
        parts.append(f"cost {charge:,.2f}")
    if known := [row.seconds for row in ahead if row.seconds is not None]:
        parts.append(f"{duration(sum(known))} for {len(known)} of them, as steps like them took")
    return ", ".join(parts)
