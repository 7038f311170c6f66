"""Kernels of the indexes."""
