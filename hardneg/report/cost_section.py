"""What systems take beside their quality: time to train, to encode, to search, and bytes of an index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hardneg.report.axis import axis, frame, spread, wide_axis
from hardneg.report.numbers import number
from hardneg.report.svg import Graphic, dot, drawing, fitted, line, words
from hardneg.report.table import Cell, Section, Table

_ACROSS, _NAMES = (13.0, 56.0), 60.0
_TOP, _FOOT, _GAP = 10.0, 24.0, 15.0
_DESCRIBED = 12
_DRAWN = ("training", "steps", "size", "query", "indexing")  # the first that tell systems apart
_MOST = 4
_UNITS = (("hours", 3600.0), ("minutes", 60.0))
_EXPLAINED = (
    "Wall time of whole stages, as their manifests tell it: a search opens its index and encodes its queries. All "
    "steps: each once that the system's run comes of, mining among them. –: the recipe has no such step."
)


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """What one system takes, of several seeds each on average; None where that is not known.

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
    """One kind of cost: its name, its unit, the field that has it, and what of the field is one of the unit."""

    name: str
    unit: str
    field: str
    one: float = 1.0

    def of(self, costs: SystemCosts) -> float | None:
        """In its unit; None where it is not known, or where it is nothing."""
        value: float | None = getattr(costs, self.field)
        return value / self.one if value else None


def costs_section(costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str) -> Section | None:
    """A figure for each kind of cost in which systems differ, and all as a table; None where nothing is known.

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
    """In the largest unit of which the shortest time has one at least."""
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
    """Three digits at least."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _graphics(
    shown: Sequence[Cost], costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str
) -> Iterator[Graphic]:
    upright = [means[name] for name in costs if name in means]
    for cost in shown:
        points = {name: (x, means[name]) for name, each in costs.items() if (x := cost.of(each)) and name in means}
        if len({f"{x:.2g}" for x, _ in points.values()}) > 1:
            without = [name for name in costs if name in means and name not in points]
            lacking = f" Not known, or no such step: {', '.join(without)}." if without else ""
            scale = " (logarithmic)" if wide_axis([x for x, _ in points.values()], _ACROSS).logarithmic else ""
            caption = f"{metric} by {cost.name}, {cost.unit}{scale}.{lacking}"
            yield Graphic(_scatter(cost, points, upright, metric), caption)


def _scatter(cost: Cost, points: Mapping[str, tuple[float, float]], values: Sequence[float], metric: str) -> str:
    """A dot a system, its name at the right, as high as the dot where there is room, and a line between the two.

    values: those of all systems, so that all figures have the same height.
    """
    bottom = _TOP + max(150.0, _GAP * len(points))
    across = wide_axis([x for x, _ in points.values()], _ACROSS)
    upright = axis(values, (bottom, _TOP))
    heights = spread([upright.at(y) for _, y in points.values()], _GAP, (_TOP, bottom))
    parts = [*frame(across, upright)]
    for (name, (x, y)), height in zip(points.items(), heights, strict=True):
        parts.append(line((across.at(x), _NAMES - 1), (upright.at(y), height), "lead-line"))
        parts.append(words(_NAMES, height + 4, fitted(name, 20), look="mark"))
    parts += [dot(across.at(x), upright.at(y), "dot plain") for x, y in points.values()]
    text = "; ".join(
        f"{name}: {_figure(x)} {cost.unit}, {number(y)}" for name, (x, y) in list(points.items())[:_DESCRIBED]
    )
    return drawing(f"cost-{cost.field}", f"{metric} by {cost.name}", f"{text}.", bottom + _FOOT, parts)
