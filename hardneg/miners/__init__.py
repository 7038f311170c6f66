"""Built-in negative miners."""
