"""Queries with instructions: published datasets, negatives that violate the instruction, and p-MRR."""
