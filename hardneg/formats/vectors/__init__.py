"""Vectors, weights of terms and token vectors on disk: one file or shards, written block by block."""
