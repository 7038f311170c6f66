"""Queries with instructions: published data, negatives that the instruction rules out, p-MRR."""
