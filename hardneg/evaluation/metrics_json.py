"""The `metrics` artifact: JSON with the means and the scores by query; equal scores give equal bytes."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.errors import ArtifactError
from hardneg.evaluation.metrics import Scores, means


def to_json(scores: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """`{"metrics": {name: mean}, "per_query": {name: {query_id: score}}}`."""
    return {"metrics": means(scores), "per_query": {name: dict(values) for name, values in scores.items()}}


def write_metrics(path: Path, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Writes what `evaluate` returned, keys sorted; the file appears complete or not at all."""
    text = json.dumps(to_json(scores), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    aside = path.with_name(path.name + ".tmp")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def read_metrics(path: Path) -> Scores:
    """The scores by metric and query that `write_metrics` wrote.

    Raises:
        ArtifactError: The file is missing or is not such a file.
    """
    try:
        scores = json.loads(path.read_text("utf-8"))["per_query"]
        return {name: {query: float(x) for query, x in values.items()} for name, values in scores.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{path}: not a metrics file ({reason}); run the evaluation again") from error
