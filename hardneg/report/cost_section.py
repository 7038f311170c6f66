"""Costs beside quality: time to train, encode and search, and bytes of the index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hardneg.report.figure import graphic, lines, plain_axes
from hardneg.report.numbers import number
from hardneg.report.table import Cell, Graphic, Section, Table

_DESCRIBED = 12
_DRAWN = ("training", "steps", "size", "query", "indexing")  # the first that tell systems apart
_MOST = 4
_UNITS = (("hours", 3600.0), ("minutes", 60.0))
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


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost: its name, its unit, its field in `SystemCosts`, and `one` unit in what the field counts."""

    name: str
    unit: str
    field: str
    one: float = 1.0

    def of(self, costs: SystemCosts) -> float | None:
        """Return the cost in its unit; None if it is not known or 0."""
        value: float | None = getattr(costs, self.field)
        return value / self.one if value else None


def costs_section(costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str) -> Section | None:
    """Return a figure of each cost in which systems differ, and a table of all; None if nothing is known.

    means: of each system by `metric`.
    """
    shown = [cost for cost in _all_costs(costs) if any(cost.of(each) for each in costs.values())]
    if not shown:
        return None
    drawn = sorted(shown, key=lambda cost: _DRAWN.index(cost.field))
    graphics = list(islice(_graphics(drawn, costs, means, metric), _MOST))
    devices = list(dict.fromkeys(device for each in costs.values() for device in each.devices))
    explained = f"{_EXPLAINED} Measured on: {', '.join(devices)}." if devices else _EXPLAINED
    return Section("Cost beside quality", [_table(shown, costs, means, metric)], explained, graphics=graphics)


def _all_costs(costs: Mapping[str, SystemCosts]) -> list[Cost]:
    return [
        _time("training", "training", costs),
        _time("encoding, indexing", "indexing", costs),
        Cost("size of the index", "MB", "size", 1e6),
        Cost("search", "ms a query", "query"),
        _time("all steps", "steps", costs),
    ]


def _time(name: str, field: str, costs: Mapping[str, SystemCosts]) -> Cost:
    """A time in the largest unit of which the shortest one has at least one."""
    shortest = min((value for each in costs.values() if (value := getattr(each, field))), default=0.0)
    unit, one = next(((unit, one) for unit, one in _UNITS if shortest >= one), ("seconds", 1.0))
    return Cost(name, unit, field, one)


def _table(shown: Sequence[Cost], costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str) -> Table:
    columns = [Cell("system"), Cell(metric), *(Cell(cost.name, note=cost.unit) for cost in shown)]
    rows = [
        [name, number(means[name]) if name in means else "–", *(_figure(cost.of(each)) for cost in shown)]
        for name, each in costs.items()
    ]
    return Table(columns, rows)


def _figure(value: float | None) -> str:
    """With at least three digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _graphics(
    shown: Sequence[Cost], costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str
) -> Iterator[Graphic]:
    for cost in shown:
        points = {name: (x, means[name]) for name, each in costs.items() if (x := cost.of(each)) and name in means}
        if len({f"{x:.2g}" for x, _ in points.values()}) > 1:
            without = [name for name in costs if name in means and name not in points]
            lacking = f" Not known, or no such step: {', '.join(without)}." if without else ""
            values = [x for x, _ in points.values()]
            wide = max(values) >= 10 * min(values)
            caption = f"{metric} by {cost.name}, {cost.unit}{' (logarithmic)' if wide else ''}.{lacking}"
            named = list(points.items())[:_DESCRIBED]
            text = "; ".join(f"{name}: {_figure(x)} {cost.unit}, {number(y)}" for name, (x, y) in named)

            def draw(axes: Any, points: Mapping[str, tuple[float, float]] = points, wide: bool = wide) -> None:
                lines(axes, {name: [point] for name, point in points.items()})
                if wide:
                    axes.set_xscale("log")
                else:
                    axes.set_xlim(left=0)
                plain_axes(axes, "", "", "")

            yield graphic(f"cost-{cost.field}", f"{metric} by {cost.name}", f"{text}.", caption, draw)
