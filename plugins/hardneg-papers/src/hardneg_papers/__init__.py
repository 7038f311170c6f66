"""Recipes for tables and figures of papers, and studies of hard negatives, as functions that return recipe trees."""
