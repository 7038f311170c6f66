"""Built-in index backends."""
