"""Hard negatives for the trainers of sentence-transformers: `from hardneg.trainer import RefreshedNegatives`."""

from hardneg.integrations.adore_loss import AdoreLoss
from hardneg.integrations.refresher import RefreshedNegatives

__all__ = ["AdoreLoss", "RefreshedNegatives"]
