"""Built-in losses: pure functions of a score matrix and masks."""

TEMPERATURE = 0.05
"""The suggested temperature of a loss over cosines."""
