"""What trainings' histories say, as tables of words."""

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Sequence[str]
Rows = Sequence[Sequence[str]]


def gradient_table(found: Mapping[str, Mapping[str, Any]]) -> tuple[Columns, Rows]:
    """One row a training and measurement; `found` is what `gradients` says of each training."""
    rows = [
        [label, name, f"{each['mean']:.4g}", f"{each['largest']:.4g}", f"{each['steps']:,}"]
        for label, measured in found.items()
        for name, each in measured.items()
    ]
    return ("training", "measured", "mean", "largest", "steps"), rows
