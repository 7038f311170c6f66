"""Formats: corpus, queries, qrels, runs, negatives and vectors; readers and writers that stream."""
