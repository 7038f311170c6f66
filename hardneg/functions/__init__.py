"""The public functions, one a file: what Python calls, and what commands are made from."""
