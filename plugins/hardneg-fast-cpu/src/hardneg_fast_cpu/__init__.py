"""Faster encoding, reranking and search for hardneg, depending on the processor."""
