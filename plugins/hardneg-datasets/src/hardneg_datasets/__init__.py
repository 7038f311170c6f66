"""Datasets of hardneg in the forms of DPR, Tevatron, Pyserini and MS MARCO, and their published files."""
