"""Negatives that the current model mines again during training."""
