"""The ways to train: one module each."""
