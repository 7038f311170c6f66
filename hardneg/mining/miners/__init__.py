"""Built-in miners."""
