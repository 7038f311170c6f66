"""The command `hardneg recipe verify`: compare a finished run with the bands of its recipe.

Bands are in the file `bands/NAME.json`: in this package for named recipes, next to the recipe file for others.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import typer
from scipy.stats import t as student

import hardneg.plugin as hn

ROUNDING = 0.001
"""The minimum half-width of a band, because other processors may round and break ties differently."""
LEVEL = 0.01
"""The maximum probability that any value of a correct run is outside its band, over all values with seeds."""
LEAST_SEEDS = 5
"""The minimum number of seeds for bands; fewer seeds say little about the spread."""
MAY_DIFFER = ("title", "seed", "seeds")
"""The top-level fields in which a run may differ from the recipe."""


@dataclass(frozen=True, slots=True)
class Band:
    """The mean of a system's metric over seeds, and its spread.

    deviation: the sample standard deviation over seeds, 0 for one seed. seeds: the number of seeds.
    """

    mean: float
    deviation: float
    seeds: int

    def half_width(self, seeds: int, level: float) -> float:
        """Return half the width of the 1 - `level` prediction interval for the mean of `seeds` new runs.

        It is t(1 - level / 2; n - 1) * deviation * sqrt(1 / n + 1 / seeds), where n is the number of seeds of the band,
        but at least `ROUNDING`, as for n = 1. Source: Hahn and Meeker, Statistical Intervals, 1991, section 4.8.
        """
        if self.seeds < 2:
            return ROUNDING
        quantile = float(student.ppf(1 - level / 2, self.seeds - 1))
        return max(ROUNDING, quantile * self.deviation * math.sqrt(1 / self.seeds + 1 / seeds))


Bands = Mapping[str, Mapping[str, Band]]
"""The bands by system and metric."""


@dataclass(frozen=True, slots=True)
class BandCheck:
    """The mean value of a run over `seeds` seeds, and whether it is `inside` the band from `low` to `high`."""

    system: str
    metric: str
    value: float
    seeds: int
    low: float
    high: float
    inside: bool


def bands_of(measured: hn.metrics_files.Measured) -> dict[str, dict[str, Band]]:
    """Compute bands from the metrics of a run, by system and metric; with a single seed, the deviation is 0."""
    return {
        system: {
            metric: Band(round(fmean(values), 6), round(stdev(values), 6) if values[1:] else 0.0, len(values))
            for metric, values in _values(measured, system).items()
        }
        for system in measured.results
    }


def check_bands(measured: hn.metrics_files.Measured, bands: Bands) -> list[BandCheck]:
    """Compare a run's values with their bands, if any; `LEVEL` is divided by the number of bands with several seeds."""
    pairs = [
        (system, metric, band, values)
        for system, row in bands.items()
        if system in measured.results
        for metric, band in row.items()
        if (values := _values(measured, system).get(metric))
    ]
    checked, trained = [], sum(band.seeds > 1 for _, _, band, _ in pairs)
    for system, metric, band, values in pairs:
        half, value = band.half_width(len(values), LEVEL / max(trained, 1)), fmean(values)
        low, high = band.mean - half, band.mean + half
        checked.append(BandCheck(system, metric, value, len(values), low, high, low <= value <= high))
    return checked


def _values(measured: hn.metrics_files.Measured, system: str) -> dict[str, list[float]]:
    """Return, by metric, the mean over queries for each seed, or a single mean for a system without seeds."""
    seeds = measured.by_seed.get(system)
    rows = [hn.measuring.means(scores) for scores in (seeds.values() if seeds else [measured.results[system]])]
    return {metric: [row[metric] for row in rows] for metric in rows[0]}


@dataclass(frozen=True)
class Verified:
    """The comparison of a run with the bands of its recipe.

    holds: whether there are no differences and all values are inside their bands. device: the device of the run and
    the bands. values: the values that have a band. differences: one line per difference between run and recipe, in
    settings, collection, systems or metrics.
    """

    holds: bool
    device: str
    values: list[BandCheck]
    differences: list[str]


def verify(recipe: str, folder: Path, named: str | None = None) -> Verified:
    """Compare a run folder with the bands of its recipe; named: the preset that the run must have, if any.

    Raises UsageError if the run has another preset or there are no bands for it, DataError if the run is not finished.
    """
    lock, measured, path = hn.recipes.read_lock(folder), _finished(folder), bands_file(recipe)
    device, preset = lock["device"], lock["preset"]
    if named not in (None, preset):
        raise hn.errors.UsageError(
            f"{folder}: this run used preset {preset}, not {named}; omit --preset, or use another folder"
        )
    recorded = _read(path).get(preset, {})
    if device not in recorded:
        known = ", ".join(sorted(recorded)) or "none"
        raise hn.errors.UsageError(
            f"{path}: no bands of preset {preset} for device {device} (available: {known}); "
            "run the recipe with ten seeds and record them with --record"
        )
    try:
        dataset, rows = recorded[device]["dataset"], recorded[device]["bands"]
        bands = {system: {metric: Band(**band) for metric, band in row.items()} for system, row in rows.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise hn.errors.DataError(
            f"{path}: damaged ({type(error).__name__}: {error}); record the bands again"
        ) from None
    differences = _settings_changed(recipe, lock)
    if lock["measured"] not in (None, *lock["keys"].values()):
        differences.append(f"{hn.layout.METRICS}: measured with other settings; run the recipe to completion")
    if dataset != lock["keys"]["dataset"]:
        differences.append(f"dataset: {lock['keys']['dataset']}, but the bands are from {dataset}")
    for system, row in bands.items():
        if system not in measured.results:
            differences.append(f"{hn.layout.METRICS}: no system {system!r}")
            continue
        lacking = [metric for metric in row if metric not in measured.results[system]]
        differences += [f"{hn.layout.METRICS}: no metric {metric!r} of {system!r}" for metric in lacking]
    values = check_bands(measured, bands)
    return Verified(not differences and all(each.inside for each in values), device, values, differences)


def record(recipe: str, folder: Path) -> Path:
    """Record the bands of a finished run in the bands file of its recipe; return the path of that file.

    Raises UsageError if the run trains with fewer than five seeds or differs from the recipe, DataError if unfinished.
    """
    lock, measured, path = hn.recipes.read_lock(folder), _finished(folder), bands_file(recipe)
    trains = any(str(stage["stage"]).startswith("train") for stage in lock["tree"]["stages"].values())
    if trains and max(map(len, measured.by_seed.values()), default=0) < LEAST_SEEDS:
        raise hn.errors.UsageError(
            f"{folder}: bands need at least {LEAST_SEEDS} seeds, preferably ten; run the recipe with `seeds`"
        )
    if differences := _settings_changed(recipe, lock):
        raise hn.errors.UsageError("\n".join([f"{folder}: differs from the recipe {recipe}:", *differences]))
    rows = bands_of(measured).items()
    bands = {system: {metric: asdict(band) for metric, band in row.items()} for system, row in rows}
    content = _read(path)
    content.setdefault(lock["preset"], {})[lock["device"]] = {"dataset": lock["keys"]["dataset"], "bands": bands}
    path.parent.mkdir(exist_ok=True)
    hn.stores.replace_text(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return path


def bands_file(recipe: str) -> Path:
    """Return the path of the bands file of a recipe, given by name or path."""
    path = Path(recipe)
    return (path if path.is_file() else Path(__file__)).parent / "bands" / f"{path.stem}.json"


def _finished(folder: Path) -> hn.metrics_files.Measured:
    """Read the metrics of a run folder."""
    path = folder / hn.layout.METRICS
    if not path.is_file():
        raise hn.errors.DataError(f"{folder}: no {path.name}, so the run is not finished; run the recipe to completion")
    return hn.metrics_files.read_metrics(path)


def _settings_changed(recipe: str, lock: Mapping[str, Any]) -> list[str]:
    trees = [lock["tree"], hn.recipes.recipe_tree(recipe, lock["preset"])]
    run, written = ({name: value for name, value in tree.items() if name not in MAY_DIFFER} for tree in trees)
    return list(tree_differences(run, written))


def tree_differences(run: Any, recipe: Any, path: str = "") -> Iterator[str]:
    """Yield one line, prefixed with `path`, for each value in which a run's tree differs from the recipe's."""
    if isinstance(run, Mapping) and isinstance(recipe, Mapping):
        for name in dict.fromkeys([*recipe, *run]):
            yield from tree_differences(run.get(name), recipe.get(name), f"{path}.{name}" if path else str(name))
    elif run != recipe:
        here, there = ("nothing" if each is None else json.dumps(each, ensure_ascii=False) for each in (run, recipe))
        yield f"{path}: {here}; the recipe has {there}"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise hn.errors.DataError(f"{path}: cannot be read ({error}); record the bands again") from None
    if not isinstance(content, dict):
        raise hn.errors.DataError(f"{path}: damaged; record the bands again")
    return content


def verify_run(
    name: str = typer.Argument(help="The name of a recipe, or the path of a recipe file."),
    folder: Path | None = typer.Argument(None, help="The run folder; by default, runs/NAME-PRESET."),
    preset: str | None = typer.Option(None, "--preset", "-p", help="The preset; by default, the preset of the run."),
    record_bands: bool = typer.Option(False, "--record", help="Record bands from this run with several seeds."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON on stdout."),
) -> None:
    """Compare a finished run with the bands of its recipe: means and their spread over seeds.

    Exits with code 1 if a value is outside its band, or if the run differs from the recipe.

    Example: hardneg recipe verify star-static
    """
    hn.recipes.recipe_tree(name, preset or "")  # raises an error with suggestions for an unknown name
    usual = Path("runs") / Path(name).stem
    folder = folder or (usual if usual.is_dir() and not preset else Path(f"{usual}-{preset or 'demo'}"))
    if record_bands:
        return hn.terminal.say(f"wrote bands to {record(name, folder)}")
    verified = verify(name, folder, preset)
    hn.terminal.say(json.dumps(asdict(verified), indent=2) if as_json else "\n".join(_lines(verified)))
    if not verified.holds:
        raise typer.Exit(1)
    return None


def _lines(verified: Verified) -> Iterator[str]:
    width = max((len(f"{row.system}, {row.metric}") for row in verified.values), default=0)
    for row in verified.values:
        band = f"{row.value:.4f}  band [{row.low:.4f}, {row.high:.4f}]{'' if row.inside else '  OUTSIDE'}"
        yield f"{f'{row.system}, {row.metric}':<{width}}  {band}"
    inside = f"{sum(row.inside for row in verified.values)} of {len(verified.values)} values inside their bands"
    differ = f"; {len(verified.differences)} differences from the recipe:" if verified.differences else ""
    yield f"{inside} ({verified.device}){differ}"
    yield from (f"  {line}" for line in verified.differences)
