"""A query writer for hardneg, based on the sequence-to-sequence networks of transformers."""
