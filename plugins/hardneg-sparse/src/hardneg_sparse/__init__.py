"""Learned sparse encoders: a weight for each term of the vocabulary, most of them 0, compared by the inner product."""
