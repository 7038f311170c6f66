"""The built-in indexes, which a recipe names."""
