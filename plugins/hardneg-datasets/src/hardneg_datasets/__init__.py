"""Loaders for datasets in the formats of DPR, Tevatron, Pyserini and MS MARCO, and downloads of published files."""
