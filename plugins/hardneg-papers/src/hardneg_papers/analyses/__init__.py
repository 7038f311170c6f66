"""Analyses of the papers' tables and figures, and of what filters and trainings do."""
