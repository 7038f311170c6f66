"""Built-in losses: pure functions of a score matrix and masks."""

TEMPERATURE = 0.05
"""Of a loss over cosines, where the package chooses one."""
