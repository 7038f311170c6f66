"""Training methods, one module each."""
