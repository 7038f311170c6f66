"""Fields and cells of tables that several analyses share."""

from collections.abc import Mapping
from typing import Annotated

from hardneg.plugin import fields

_VECTORS = {
    fields.Trait.TEXTS: "search it and name the run in `runs`",
    fields.Trait.SEGMENTS: "name one without `segments`",
    **dict.fromkeys(
        (fields.Trait.WEIGHTS, fields.Trait.TOKEN_VECTORS), "name one of an encoder with one vector a text"
    ),
}
Indexes = Annotated[dict[fields.Name, fields.Name], fields.Reference(("index",), _VECTORS), fields.Option("index")]
"""Indexes with one vector a document, by label; on the command line folders."""

Encoders = Annotated[dict[fields.Name, fields.Name], fields.Reference(("model",)), fields.Option("model", placed=True)]
"""Query encoders by the labels of indexes; by default the models that encoded the indexes."""

Metric = Annotated[fields.MetricName, fields.Option("metric", same=("metrics",))]

MeasuredRuns = Annotated[dict[fields.Name, fields.Name], fields.MEASURED, fields.Option("run")]
"""The runs to evaluate, by label."""


def check_model_labels(indexes: Mapping[str, str], models: Mapping[str, str]) -> None:
    """Check that models have labels of indexes; raises ValueError for validators."""
    if unknown := sorted(set(models) - set(indexes)):
        raise ValueError(f"no index is labelled {', '.join(unknown)}; indexes has {', '.join(indexes) or 'none'}")


def shortened(text: str) -> str:
    """Shorten a text for a table's cell."""
    return text if len(text) <= 120 else text[:120] + "…"


def percent(share: float | None) -> str:
    """Format a share in percent; a dash for None."""
    return "–" if share is None else f"{share:.1%}"
