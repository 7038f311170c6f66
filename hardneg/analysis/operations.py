"""What each operation takes, before anybody asks and for each query: the time of a stage over what it went through."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.records.errors import UsageError
from hardneg.records.wording import suggestion
from hardneg.report.figure import bar_width, bars, figure, plain_axes
from hardneg.report.table import Table

_UNITS = {"index": ("passages", "document"), "run": ("queries", "query"), "negatives": ("queries", "query")}
_UNITS |= {"model": ("steps", "step")}
"""By type of artifact: the fact that counts what a stage went through, and what one of it is called."""

_ONLINE = "run"
_PARTS = {"run": "seconds of search: ", "model": "seconds of inference: "}
"""What the seconds of a stage's parts are called in its facts, by type."""

_ENCODE = "encode"


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

    def measure(self, inputs: AnalysisInputs) -> list[dict[str, Any]]:
        """The operations of each stage, by what its manifest says."""
        stages = {label: inputs.facts(f"stages.{label}") for label in self.stages}
        results = operations(stages)
        try:
            summed = totals(results, self.totals)
        except UsageError as error:
            raise UsageError(f"{inputs.location('totals')}: {error}") from None
        return [operation.to_json() for operation in [*results, *summed]]

    def table(self, results: Any) -> Table:
        """One row an operation."""
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
        with figure(paths, 1, width=bar_width(len(known))) as (axes,):
            values = {name: row["milliseconds"] for name, row in known.items()}
            bars(axes, values, {name: _words(row).replace(" a ", "\na ") for name, row in known.items()})
            if known:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:,g}")
            plain_axes(axes, "time of one unit", "", "milliseconds")


@dataclass(frozen=True)
class Operation:
    """One operation.

    artifact_type: what its stage made. online: whether users wait for it. seconds: wall time of all of it, None where
    it is not known. count: how many of `unit` it went through, 0 where that is not known.
    """

    operation: str
    artifact_type: str
    online: bool
    seconds: float | None
    count: int
    unit: str

    @property
    def milliseconds(self) -> float | None:
        """For one unit; None where it is not known."""
        return 1000 * self.seconds / self.count if self.seconds is not None and self.count else None

    def to_json(self) -> dict[str, Any]:
        """Its fields, and the milliseconds for one unit."""
        fields = asdict(self)
        return {"kind": fields.pop("artifact_type"), **fields, "milliseconds": self.milliseconds}


def operations(stages: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[Operation]:
    """The operations of stages from label to the type of artifact and its facts, in their order.

    A search is followed by its parts. A training on refreshed negatives is followed by its steps, without the time that
    it waited for negatives; by the parts of its refreshes; and by all of these together, for each step.

    Source: ANCE (Xiong et al., ICLR 2021), table 5; its first version, table 3.
    """
    all_operations = []
    for label, (output, facts) in stages.items():
        counted, unit = _UNITS[output]
        seconds = facts.get("seconds")
        count = int(facts.get(counted, 0))
        all_operations.append(
            Operation(label, output, output == _ONLINE, None if seconds is None else float(seconds), count, unit)
        )
        prefix = _PARTS.get(output)
        named = {name: value for name, value in facts.items() if prefix and name.startswith(prefix)}
        parts = {name.removeprefix(prefix or ""): float(value) for name, value in named.items()}
        if output == _ONLINE:
            all_operations += [
                Operation(f"{label}: {name}", output, True, value, count, unit) for name, value in parts.items()
            ]
        elif parts:
            all_operations += _refreshing(label, facts, parts)
    return all_operations


def totals(results: Sequence[Operation], named: Mapping[str, Sequence[str]]) -> list[Operation]:
    """The sum of the named operations for one unit, times the units of the first; unknown where one is.

    Raises:
        UsageError: an operation that is not there, or one of another unit than the first.
    """
    known, summed = {each.operation: each for each in results}, []
    for label, names in named.items():
        if lacking := [name for name in names if name not in known]:
            message = f"no operation {lacking[0]!r}{suggestion(lacking[0], known)}; there are: {', '.join(known)}"
            raise UsageError(f"{label}: {message}")
        parts = [known[name] for name in names]
        if len(units := dict.fromkeys(each.unit for each in parts)) > 1:
            raise UsageError(f"{label}: a {' and a '.join(units)} cannot be summed: name operations of one unit")
        times = [each.milliseconds for each in parts]
        seconds = None if None in times else sum(each or 0.0 for each in times) * parts[0].count / 1000
        first = parts[0]
        summed.append(Operation(label, "total", all(each.online for each in parts), seconds, first.count, first.unit))
    return summed


def _refreshing(label: str, facts: Mapping[str, Any], parts: Mapping[str, float]) -> Iterator[Operation]:
    """The steps of a training without waiting, what its refreshes took, and that for each step."""
    steps, refreshes = int(facts.get("steps", 0)), int(facts.get("refreshes made", 0))
    waited = facts.get("waiting's part of the time")
    if waited is not None and "seconds" in facts:
        yield Operation(f"{label}: steps", "model", False, float(facts["seconds"]) * (1 - float(waited)), steps, "step")
    for name, seconds in parts.items():
        counted, unit = ("documents encoded", "document") if name == _ENCODE else ("queries searched", "query")
        count, unit = (int(facts[counted]), unit) if counted in facts else (refreshes, "refresh")
        yield Operation(f"{label}: {name}", "model", False, seconds, count, unit)
    yield Operation(f"{label}: making negatives", "model", False, sum(parts.values()), steps, "step")


def _words(row: Mapping[str, Any]) -> str:
    """The time of one unit, with its name."""
    each = row["milliseconds"]
    if each is None:
        return "unknown"
    return f"{each / 1000:.3g} s a {row['unit']}" if each >= 1000 else f"{each:.3g} ms a {row['unit']}"
