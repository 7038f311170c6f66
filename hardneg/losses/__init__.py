"""Built-in losses: pure functions of a score matrix and masks."""

TEMPERATURE = 0.05
"""The suggested temperature for a loss over cosine similarities."""
