"""Learned sparse encoders for hardneg: a weight per vocabulary term, mostly 0, compared by inner product."""
