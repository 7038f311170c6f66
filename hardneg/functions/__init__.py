"""The public Python functions, which the commands also call, and their arguments and results."""
