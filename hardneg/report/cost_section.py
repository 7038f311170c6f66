"""Costs beside quality: time to train, encode and search, and bytes of the index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardneg.report.numbers import number
from hardneg.report.table import Cell, Section, Table

_TIMES = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
_COSTS = {
    "training": "training",
    "encoding, indexing": "indexing",
    "size of the index": "size",
    "search": "query",
    "all steps": "steps",
}
_UNITS = {"size": ("MB", 1e6), "query": ("ms a query", 1.0)}
_EXPLAINED = (
    "Wall time of whole stages, from their manifests: a search opens its index and encodes its queries. All "
    "steps: each stage that the system's run needs, mining included, once. –: the recipe has no such stage."
)


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """The costs of one system, the mean over its seeds; None if not known.

    training, indexing, steps: seconds of its trainings, of encoding and indexing the collection, and of all steps.
    size: bytes of its index. query: milliseconds of search for one of all queries at once. devices: where.
    """

    training: float | None = None
    indexing: float | None = None
    size: float | None = None
    query: float | None = None
    steps: float | None = None
    devices: Sequence[str] = ()


def costs_section(costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str) -> Section | None:
    """Return a table of the costs that are known of any system; None if nothing is.

    means: of each system by `metric`. Times are in the largest unit of which the shortest one has at least one.
    """
    columns, rows = (
        [Cell("system"), Cell(metric)],
        {name: [name, number(means[name]) if name in means else "–"] for name in costs},
    )
    for title, field in _COSTS.items():
        values = {name: getattr(each, field) for name, each in costs.items()}
        if not (known := [value for value in values.values() if value]):
            continue
        unit, one = _UNITS.get(field) or next((each for each in _TIMES if min(known) >= each[1]), _TIMES[-1])
        columns.append(Cell(title, note=unit))
        for name, value in values.items():
            in_units = value / one if value else 0.0
            rows[name].append(f"{in_units:,.0f}" if in_units >= 100 else f"{in_units:.3g}" if value else "–")
    if len(columns) == 2:
        return None
    devices = list(dict.fromkeys(device for each in costs.values() for device in each.devices))
    explained = f"{_EXPLAINED} Measured on: {', '.join(devices)}." if devices else _EXPLAINED
    return Section("Cost beside quality", [Table(columns, list(rows.values()))], explained)
