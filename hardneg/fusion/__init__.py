"""Fusion of the ranked lists of several runs."""
