"""Loaders for datasets of ir_datasets and in the formats of DPR, Tevatron, Pyserini and MS MARCO, and downloads."""
