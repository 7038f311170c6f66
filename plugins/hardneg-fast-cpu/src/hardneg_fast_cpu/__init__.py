"""Faster encoding, reranking and search for hardneg, with kernels selected by processor."""
