"""Built-in losses: pure functions of a score matrix and masks."""
