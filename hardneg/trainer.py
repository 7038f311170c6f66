"""Inside sentence-transformers' own trainers: `from hardneg.trainer import RefreshedNegatives`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.integrations.adore_loss import AdoreLoss
    from hardneg.integrations.refresher import RefreshedNegatives

__all__ = ["AdoreLoss", "RefreshedNegatives"]


def __getattr__(name: str) -> Any:
    """Import the loss, which needs torch, and the negatives on demand."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "adore_loss" if name == "AdoreLoss" else "refresher"
    return getattr(import_module(f"hardneg.integrations.{home}"), name)
