"""Metrics, significance and tables."""
