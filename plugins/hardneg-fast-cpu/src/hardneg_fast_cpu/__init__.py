"""Faster ways to encode, rerank and search with hardneg, by what a processor can do."""
