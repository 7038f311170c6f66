"""The `metrics` artifact: JSON with means and scores by query for each system, and the paired tests.

`{"metrics": {system: {metric: mean}}, "intervals": {system: {metric: [low, high]}}, "comparisons": [...],
"significance_level": p, "equivalence_margin": margin, "per_query": {system: {metric: {query_id: score}}}}`, and, if
there are any, `"marks": {sign: [system]}`, `"notes": [line]` and `"query_groups": {query_id: group}`. The same results
in the same order give the same bytes. A comparison's `"verdict"` is `"difference"`, `"equivalent"` or `"undecided"`.
With several seeds, scores are means over seeds, and there are two more keys: `"per_seed": {system: {seed: {metric:
{query_id: score}}}}` and `"over_seeds"`, the tests over queries and seeds, with the verdicts on the pairs tested there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardneg.evaluation import LEVEL, MARGIN, intervals
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.significance import Comparison, TwoLevel, verdict
from hardneg.records import ArtifactError
from hardneg.store import replace_text

_ENDS = ("interval", "bootstrap_interval")


@dataclass(frozen=True, slots=True)
class Measured:
    """The content of a metrics file: scores by query for each system, and the paired tests.

    marks: for each sign, the systems that a system must beat to get it; if empty, each baseline has a sign. by_seed:
    scores by seed of the systems with several seeds; `results` has the means. over_seeds: tests over queries and seeds.
    significance_level: bound on the corrected p values of a marked difference. notes: remarks, one line each.
    equivalence_margin: the margin of equivalence tests. query_groups: the group of each query; None without groups.
    """

    results: Mapping[str, Scores]
    comparisons: Sequence[Comparison] = ()
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_seed: Mapping[str, Mapping[int, Scores]] = field(default_factory=dict)
    over_seeds: Sequence[TwoLevel] = ()
    significance_level: float = LEVEL
    notes: Sequence[str] = ()
    equivalence_margin: float = MARGIN
    query_groups: Mapping[str, str] | None = None


def to_json(measured: Measured) -> dict[str, Any]:
    """Return the content of a metrics file, with systems and metrics in the order given and queries sorted."""
    per_query = {
        system: {metric: dict(sorted(values.items())) for metric, values in scores.items()}
        for system, scores in measured.results.items()
    }
    bounds = {
        system: {metric: _ends(each) for metric, each in by_metric.items()}
        for system, scores in per_query.items()
        for by_metric in [intervals.system_intervals(scores, measured.by_seed.get(system), measured.query_groups)]
    }
    over_seeds = {(each.system, each.baseline, each.metric) for each in measured.over_seeds}
    groups, level = measured.query_groups or {}, measured.significance_level
    scored = {query_id for scores in per_query.values() for values in scores.values() for query_id in values}
    content = {
        "metrics": {system: means(scores) for system, scores in per_query.items()},
        "intervals": bounds,
        "comparisons": [
            _test_json(each, level, (each.system, each.baseline, each.metric) not in over_seeds)
            for each in measured.comparisons
        ],
        "marks": {sign: list(rows) for sign, rows in measured.marks.items()} or None,
        "notes": list(measured.notes) or None,
        "significance_level": level,
        "equivalence_margin": measured.equivalence_margin,
        "query_groups": {each: groups[each] for each in sorted(scored & groups.keys())} if groups else None,
        "per_query": per_query,
        "over_seeds": [_test_json(each, level) for each in measured.over_seeds] if measured.by_seed else None,
        "per_seed": measured.by_seed or None,
    }
    return {name: value for name, value in content.items() if value is not None}


def _test_json(test: Comparison | TwoLevel, level: float, decides: bool = True) -> dict[str, Any]:
    """Return a test's fields, without those on groups if there are no groups, and its verdict if it `decides`."""
    fields = asdict(test) | ({"verdict": verdict(test, level)} if decides else {})
    ends = {name: _ends(getattr(test, name)) for name in _ENDS}
    of_groups = ("groups",) if isinstance(test, TwoLevel) else ("groups", "bootstrap_interval", "bootstrap_p")
    left_out = of_groups if test.groups is None else ()
    return {name: value for name, value in {**fields, **ends}.items() if name not in left_out}


def from_json(content: Mapping[str, Any]) -> Measured:
    """Rebuild `Measured` from the output of `to_json`; optional keys that are missing get defaults."""
    by_seed = {
        system: {int(seed): _scores(scores) for seed, scores in seeds.items()}
        for system, seeds in content.get("per_seed", {}).items()
    }
    return Measured(
        {system: _scores(scores) for system, scores in content["per_query"].items()},
        [Comparison(**_fields(each)) for each in content["comparisons"]],
        content.get("marks", {}),
        by_seed,
        tuple(TwoLevel(**_fields(each)) for each in content.get("over_seeds", [])),
        float(content.get("significance_level", LEVEL)),
        tuple(map(str, content.get("notes", ()))),
        float(content.get("equivalence_margin", MARGIN)),
        content.get("query_groups"),
    )


def _scores(content: Mapping[str, Mapping[str, float]]) -> Scores:
    return {metric: {query_id: float(x) for query_id, x in scores.items()} for metric, scores in content.items()}


def _fields(test: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in test.items() if name != "verdict"}
    fields |= {name: intervals.Interval(*test[name]) if test[name] else None for name in _ENDS if name in test}
    return fields | ({"seeds": tuple(test["seeds"])} if "seeds" in test else {})


def write_metrics(path: Path, measured: Measured) -> None:
    """Write a metrics file as indented JSON, atomically. Raises ValueError if a number is not finite."""
    text = json.dumps(to_json(measured), indent=1, ensure_ascii=False, allow_nan=False)
    replace_text(path, text + "\n")


def read_metrics(path: Path) -> Measured:
    """Return the content of a metrics file. Raises ArtifactError if the file is missing or is not a metrics file."""
    try:
        return from_json(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{path}: not a metrics file ({reason}); re-run the evaluation") from error


def _ends(interval: intervals.Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None
