"""Analyses of runs and trainings beyond effectiveness, such as overlap, wins and losses, and recall at depth."""
