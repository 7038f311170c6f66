"""What each operation takes, before anybody asks and for each query: the time of a stage over what it went through."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hardneg.analysis.history_tables import Columns, Rows

UNITS = {"index": ("passages", "document"), "run": ("queries", "query"), "negatives": ("queries", "query")}
UNITS |= {"model": ("steps", "step")}
"""By kind of artifact: the fact that counts what a stage went through, and what one of it is called."""

_ONLINE = "run"
_INFERENCE = "seconds of inference: "


@dataclass(frozen=True)
class Operation:
    """One operation.

    kind: of the artifact that it made. online: whether users wait for it. seconds: wall time of all of it, None where
    it is not known. count: how many of `unit` it went through, 0 where that is not known.
    """

    operation: str
    kind: str
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
        return {**asdict(self), "milliseconds": self.milliseconds}


def operations(stages: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[Operation]:
    """The operations of stages from label to the kind of artifact and its facts, in their order.

    A training on refreshed negatives is followed by what its refreshes took, one operation a part.

    Source: ANCE (Xiong et al., ICLR 2021), table 3.
    """
    found = []
    for label, (kind, facts) in stages.items():
        counted, unit = UNITS[kind]
        seconds = facts.get("seconds")
        count = int(facts.get(counted, 0))
        found.append(Operation(label, kind, kind == _ONLINE, None if seconds is None else float(seconds), count, unit))
        made = int(facts.get("refreshes made", 0))
        found += [
            Operation(f"{label}: {name.removeprefix(_INFERENCE)}", kind, False, float(value), made, "refresh")
            for name, value in facts.items()
            if name.startswith(_INFERENCE)
        ]
    return found


def operation_table(found: list[dict[str, Any]]) -> tuple[Columns, Rows]:
    """One row an operation, from JSON."""
    rows = [
        [
            row["operation"],
            "online" if row["online"] else "offline",
            "unknown" if row["seconds"] is None else f"{row['seconds']:,.1f}",
            f"{row['count']:,}",
            words(row),
        ]
        for row in found
    ]
    return ("operation", "when", "seconds", "units", "time a unit"), rows


def words(row: Mapping[str, Any]) -> str:
    """The time of one unit, with its name."""
    each = row["milliseconds"]
    if each is None:
        return "unknown"
    return f"{each / 1000:.3g} s a {row['unit']}" if each >= 1000 else f"{each:.3g} ms a {row['unit']}"
