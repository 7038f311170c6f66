"""A query writer for hardneg that samples queries from sequence-to-sequence networks."""
