"""The `metrics` artifact: JSON with each system's means and scores by query, and the paired tests.

`{"metrics": {system: {metric: mean}}, "intervals": {system: {metric: [low, high]}}, "comparisons": [...],
"marks": {sign: [system]} where there
are some, "per_query": {system: {metric: {query_id: score}}}}`; equal results in equal order give equal bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardneg.atomic_write import replace_text
from hardneg.errors import ArtifactError
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.significance import Comparison, Interval, interval_of


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metrics file holds: scores by query for each system, the paired tests, and what signs stand for.

    marks: a sign of the report, and the systems that one must be better than to have it; empty: one a baseline.
    """

    results: Mapping[str, Scores]
    comparisons: Sequence[Comparison] = ()
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
        "per_query": per_query,
    }


def from_json(content: Mapping[str, Any]) -> Measured:
    """The scores and comparisons of what `to_json` gave."""
    results = {
        system: {
            metric: {query_id: float(x) for query_id, x in by_query.items()} for metric, by_query in scores.items()
        }
        for system, scores in content["per_query"].items()
    }
    comparisons = [
        Comparison(**(c | {"interval": Interval(*c["interval"]) if c["interval"] else None}))
        for c in content["comparisons"]
    ]
    return Measured(results, comparisons, content.get("marks", {}))


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
