"""What each operation of a recipe takes: the time of a stage over what it went through."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, Name, Option, Reference, Table, UsageError, figures, wording

_UNITS = {
    "index": ("passages", "document"),
    "run": ("queries", "query"),
    "negatives": ("queries", "query"),
    "model": ("steps", "step"),
}
"""By type of artifact: the fact that counts what a stage went through, and what one of it is called."""
_PARTS = {"run": "seconds of search: ", "model": "seconds of inference: "}
"""What the seconds of a stage's parts are called in its facts, by type."""

Row = dict[str, Any]


class Operations(Analysis):
    """Show what one document, query, training step or refresh took, of each stage of a finished recipe.

    Example: hardneg analyze operations runs/star-passage --stage star-index --stage star-test
    """

    name = "operations"
    title = "time of operations"
    explained = (
        "Wall time of whole stages over what they went through: a search opens its index and encodes its queries, a "
        "training measures its dev metrics and writes its checkpoints. After the colon: parts of the stage before; "
        "`making negatives` is all that refreshes took, for each step."
    )
    paper = "ANCE, Table 5"
    asks = ("stages",)

    stages: Annotated[dict[Name, Name], Reference(tuple(_UNITS)), Option("stage")] = Field(
        min_length=1, description="One to show; by default all but those that evaluate."
    )
    totals: Annotated[dict[Name, tuple[Name, ...]], Option("total", metavar="NAME=OPERATION[,OPERATION]")] = Field(
        default_factory=dict, description="Operations that are one after the other, summed for one unit."
    )

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """By default every stage that goes through something."""
        return values if "stages" in values else {"stages": {name: name for name in types if types[name] in _UNITS}}

    def measure(self, inputs: AnalysisInputs) -> list[Row]:
        """The operations of each stage, by what its manifest says."""
        results = operations({label: inputs.facts(f"stages.{label}") for label in self.stages})
        try:
            return [*results, *totals(results, self.totals)]
        except UsageError as error:
            raise UsageError(f"{inputs.location('totals')}: {error}") from None

    def table(self, results: Any) -> Table:
        rows = [
            [
                row["operation"],
                "online" if row["online"] else "offline",
                "unknown" if row["seconds"] is None else f"{row['seconds']:,.1f}",
                f"{row['count']:,}",
                _words(row),
            ]
            for row in results
        ]
        return Table(("operation", "when", "seconds", "units", "time a unit"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One bar an operation of known time, on a logarithmic axis."""
        known = {row["operation"]: row for row in results if row["milliseconds"]}
        with figures.figure(paths, 1, width=figures.bar_width(len(known))) as (axes,):
            values = {name: row["milliseconds"] for name, row in known.items()}
            figures.bars(axes, values, {name: _words(row).replace(" a ", "\na ") for name, row in known.items()})
            if known:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:,g}")
            figures.plain_axes(axes, "time of one unit", "", "milliseconds")


def _words(row: Mapping[str, Any]) -> str:
    """The time of one unit, with its name."""
    each = row["milliseconds"]
    if each is None:
        return "unknown"
    return f"{each / 1000:.3g} s a {row['unit']}" if each >= 1000 else f"{each:.3g} ms a {row['unit']}"


def _operation(name: str, kind: str, seconds: float | None, count: int, unit: str) -> Row:
    milliseconds = 1000 * seconds / count if seconds is not None and count else None
    facts = {"kind": kind, "operation": name, "online": kind == "run", "seconds": seconds, "count": count}
    return {**facts, "unit": unit, "milliseconds": milliseconds}


def operations(stages: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[Row]:
    """The operations of stages from label to the type of artifact and its facts, in their order.

    `operation`; `kind`: what its stage made; `online`: whether users wait for it; `seconds`: wall time of all of it,
    None where it is not known; `count` of `unit` that it went through, 0 where that is not known; `milliseconds` for
    one unit. A search is followed by its parts. A training on refreshed negatives is followed by its steps, without the
    time that it waited for negatives; by the parts of its refreshes; and by all of these together, for each step.

    Source: ANCE (Xiong et al., ICLR 2021), table 5; its first version, table 3.
    """
    results = []
    for label, (kind, facts) in stages.items():
        counted, unit = _UNITS[kind]
        seconds, count = facts.get("seconds"), int(facts.get(counted, 0))
        results.append(_operation(label, kind, None if seconds is None else float(seconds), count, unit))
        prefix = _PARTS.get(kind, "\0")
        parts = {name.removeprefix(prefix): float(each) for name, each in facts.items() if name.startswith(prefix)}
        if kind == "run":
            results += [_operation(f"{label}: {name}", kind, value, count, unit) for name, value in parts.items()]
            continue
        waited = facts.get("waiting's part of the time")
        if parts and waited is not None and seconds is not None:
            results.append(_operation(f"{label}: steps", kind, float(seconds) * (1 - float(waited)), count, unit))
        for name, value in parts.items():
            told, each = ("documents encoded", "document") if name == "encode" else ("queries searched", "query")
            told, each = (told, each) if told in facts else ("refreshes made", "refresh")
            results.append(_operation(f"{label}: {name}", kind, value, int(facts.get(told, 0)), each))
        if parts:
            results.append(_operation(f"{label}: making negatives", kind, sum(parts.values()), count, unit))
    return results


def totals(results: Sequence[Row], named: Mapping[str, Sequence[str]]) -> list[Row]:
    """The sum of the named operations for one unit, times the units of the first; unknown where one is.

    Raises:
        UsageError: an operation that is not there, or one of another unit than the first.
    """
    known, summed = {each["operation"]: each for each in results}, []
    for label, names in named.items():
        for name in names:
            if name not in known:
                there = f"{wording.suggestion(name, known)}; there are: {', '.join(known)}"
                raise UsageError(f"{label}: no operation {name!r}{there}")
        parts = [known[name] for name in names]
        if len(units := dict.fromkeys(each["unit"] for each in parts)) > 1:
            raise UsageError(f"{label}: a {' and a '.join(units)} cannot be summed: name operations of one unit")
        times, first = [each["milliseconds"] for each in parts], parts[0]
        seconds = None if None in times else sum(times) * first["count"] / 1000
        total = _operation(label, "total", seconds, first["count"], first["unit"])
        summed.append({**total, "online": all(each["online"] for each in parts)})
    return summed
