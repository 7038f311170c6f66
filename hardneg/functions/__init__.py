"""The public functions, called from Python and wrapped by commands, with their arguments and results."""
