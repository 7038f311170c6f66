"""Classes for the trainers of sentence-transformers: `from hardneg.trainer import RefreshedNegatives`."""

from typing import TYPE_CHECKING

from hardneg import on_demand

if TYPE_CHECKING:
    from hardneg.integrations.adore_loss import AdoreLoss
    from hardneg.integrations.refresher import RefreshedNegatives

__all__ = ["AdoreLoss", "RefreshedNegatives"]
__getattr__ = on_demand(__name__)
