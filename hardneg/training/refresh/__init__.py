"""Negatives that are mined again during training, with the model as it is."""
