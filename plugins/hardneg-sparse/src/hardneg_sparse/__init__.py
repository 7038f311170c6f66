"""Learned sparse encoders for hardneg, which assign weights to vocabulary terms; most weights are 0."""
