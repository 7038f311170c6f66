"""The `metrics` artifact: JSON with each system's means and scores by query, and the paired tests.

`{"metrics": {system: {metric: mean}}, "intervals": {system: {metric: [low, high]}}, "comparisons": [...],
"marks": {sign: [system]} and "notes": [line] where there are some, "significance_level": p, "per_query": {system:
{metric: {query_id: score}}}}`; equal results in equal order give equal bytes.

Where systems have several seeds, their scores are means over these, and two keys more are there: `"over_seeds"`, the
tests over queries and seeds, and `"per_seed": {system: {seed: {metric: {query_id: score}}}}`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.significance import Comparison, Interval, interval_of
from hardneg.evaluation.two_level import TwoLevel
from hardneg.records.errors import ArtifactError
from hardneg.store.atomic_write import replace_text


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metrics file holds: scores by query for each system, the paired tests, and what signs stand for.

    marks: a sign of the report, and the systems that one must be better than to have it; empty: one a baseline.
    by_seed: of systems with several seeds the scores of each; `results` has their means. over_seeds: tests that know of
    seeds. significance_level: below it both corrected p values have a difference marked. notes: what must be known
    beside the figures, one line each.
    """

    results: Mapping[str, Scores]
    comparisons: Sequence[Comparison] = ()
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_seed: Mapping[str, Mapping[int, Scores]] = field(default_factory=dict)
    over_seeds: Sequence[TwoLevel] = ()
    significance_level: float = LEVEL
    notes: Sequence[str] = ()


def to_json(measured: Measured) -> dict[str, Any]:
    """The file's content; systems and metrics in the order given, queries sorted."""
    per_query = {
        system: {metric: dict(sorted(values.items())) for metric, values in scores.items()}
        for system, scores in measured.results.items()
    }
    intervals = {
        system: {metric: _ends(interval_of(values)) for metric, values in scores.items()}
        for system, scores in per_query.items()
    }
    return {
        "metrics": {system: means(scores) for system, scores in per_query.items()},
        "intervals": intervals,
        "comparisons": [asdict(c) | {"interval": _ends(c.interval)} for c in measured.comparisons],
        **({"marks": {sign: list(rows) for sign, rows in measured.marks.items()}} if measured.marks else {}),
        **({"notes": list(measured.notes)} if measured.notes else {}),
        "significance_level": measured.significance_level,
        "per_query": per_query,
        **(_seeds_to_json(measured) if measured.by_seed else {}),
    }


def _seeds_to_json(measured: Measured) -> dict[str, Any]:
    ends = ("interval", "bootstrap_interval")
    tests = [asdict(each) | {name: _ends(getattr(each, name)) for name in ends} for each in measured.over_seeds]
    return {"over_seeds": tests, "per_seed": measured.by_seed}


def from_json(content: Mapping[str, Any]) -> Measured:
    """The scores and comparisons of what `to_json` gave."""
    results = {system: _scores(scores) for system, scores in content["per_query"].items()}
    comparisons = [Comparison(**(c | {"interval": _interval(c["interval"])})) for c in content["comparisons"]]
    by_seed = {
        system: {int(seed): _scores(scores) for seed, scores in seeds.items()}
        for system, seeds in content.get("per_seed", {}).items()
    }
    tests = tuple(map(_over_seeds, content.get("over_seeds", [])))
    level, notes = float(content.get("significance_level", LEVEL)), tuple(map(str, content.get("notes", ())))
    return Measured(results, comparisons, content.get("marks", {}), by_seed, tests, level, notes)


def _scores(content: Mapping[str, Mapping[str, float]]) -> Scores:
    return {metric: {query_id: float(x) for query_id, x in scores.items()} for metric, scores in content.items()}


def _over_seeds(content: Mapping[str, Any]) -> TwoLevel:
    intervals = {name: _interval(content[name]) for name in ("interval", "bootstrap_interval")}
    return TwoLevel(**{**content, **intervals, "seeds": tuple(content["seeds"])})


def _interval(ends: Sequence[float] | None) -> Interval | None:
    return Interval(*ends) if ends else None


def write_metrics(path: Path, measured: Measured) -> None:
    """Writes the scores of each system and the tests; the file appears complete or not at all."""
    text = json.dumps(to_json(measured), indent=1, ensure_ascii=False, allow_nan=False)
    replace_text(path, text + "\n")


def read_metrics(path: Path) -> Measured:
    """What `write_metrics` wrote.

    Raises:
        ArtifactError: The file is missing or is not such a file.
    """
    try:
        return from_json(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{path}: not a metrics file ({reason}); run the evaluation again") from error


def _ends(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None
