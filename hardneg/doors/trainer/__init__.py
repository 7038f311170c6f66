"""Inside sentence-transformers' own trainers: negatives that its model mines again while it trains."""

from typing import TYPE_CHECKING, Any

from hardneg.doors.trainer.refreshed import RefreshedNegatives

if TYPE_CHECKING:
    from hardneg.doors.trainer.adore_loss import AdoreLoss

__all__ = ["AdoreLoss", "RefreshedNegatives"]


def __getattr__(name: str) -> Any:
    """Import the loss, which needs torch, on demand."""
    if name != "AdoreLoss":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hardneg.doors.trainer.adore_loss import AdoreLoss

    return AdoreLoss
