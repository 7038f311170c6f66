"""Formats: corpora, queries, qrels, runs, vectors, negatives."""
