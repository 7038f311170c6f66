"""Analyses from the papers' tables and figures, and of filters and trainings."""
