"""The verbs of recipes, one in each module."""
