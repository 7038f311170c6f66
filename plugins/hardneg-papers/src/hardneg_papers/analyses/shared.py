"""Fields and table cells that several analyses share."""

from collections.abc import Mapping
from typing import Annotated

from hardneg.plugin import fields

_VECTORS = {
    fields.Trait.TEXTS: "search it and use the run in `runs`",
    fields.Trait.SEGMENTS: "use one without `segments`",
    **dict.fromkeys(
        (fields.Trait.WEIGHTS, fields.Trait.TOKEN_VECTORS), "use one of an encoder with one vector per text"
    ),
}
Indexes = Annotated[dict[fields.Name, fields.Name], fields.Reference(("index",), _VECTORS), fields.Option("index")]
"""Indexes with one vector per document, by label; on the command line, folders."""

Encoders = Annotated[dict[fields.Name, fields.Name], fields.Reference(("model",)), fields.Option("model", placed=True)]
"""Query encoders by index label; by default, the models that encoded the indexes."""

Metric = Annotated[fields.MetricName, fields.Option("metric", same=("metrics",))]

MeasuredRuns = Annotated[dict[fields.Name, fields.Name], fields.MEASURED, fields.Option("run")]
"""Runs to evaluate against relevance judgements, by label."""


def check_model_labels(indexes: Mapping[str, str], models: Mapping[str, str]) -> None:
    """Raise ValueError, for pydantic validators, if a model has a label that no index has."""
    if unknown := sorted(set(models) - set(indexes)):
        raise ValueError(f"no index is labelled {', '.join(unknown)}; available: {', '.join(indexes) or 'none'}")


def shortened(text: str) -> str:
    """Cut text after 120 characters for a table cell, with an ellipsis."""
    return text if len(text) <= 120 else text[:120] + "…"


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal, and None as a dash."""
    return "–" if share is None else f"{share:.1%}"
