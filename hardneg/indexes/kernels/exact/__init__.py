"""Exact search for the largest inner products."""
