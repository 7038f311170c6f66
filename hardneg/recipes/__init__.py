"""Recipes: read, planned, executed."""
