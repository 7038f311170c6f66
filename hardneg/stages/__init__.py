"""One module a verb of a recipe."""
