"""The public functions and what they take and return: what Python calls, and what commands are made from."""
