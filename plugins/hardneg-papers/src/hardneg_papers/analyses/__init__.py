"""Analyses from tables and figures of papers, and analyses of filters and training runs."""
