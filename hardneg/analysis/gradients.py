"""How large gradients are while a model trains, by third of its layers."""

import math
from collections.abc import Iterable
from typing import Any

from hardneg.analysis.history_curves import Record, gradient_curves
from hardneg.reporting.curve import thinned


def gradients(history: Iterable[Record]) -> dict[str, Any]:
    """The loss and the norm of each group's gradients: mean and largest over all steps, and a curve of 300 points.

    Empty where no record has norms.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    return {
        name: {
            "mean": math.fsum(value for _, value in curve) / len(curve),
            "largest": max(value for _, value in curve),
            "steps": len(curve),
            "curve": thinned(curve),
        }
        for name, curve in gradient_curves(history).items()
    }
