"""Analyses of runs and training beyond effectiveness, such as overlap, wins and losses, and recall at depth."""
