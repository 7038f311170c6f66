"""Loaders of data from ir_datasets, DPR, Tevatron, Pyserini and MS MARCO, and downloads of published files."""
