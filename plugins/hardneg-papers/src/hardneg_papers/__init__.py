"""Recipes of papers' tables and figures, and studies of hard negatives, as functions that return a recipe's tree."""
