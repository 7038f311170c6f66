"""A writer of queries for hardneg: sequence-to-sequence networks of transformers."""
