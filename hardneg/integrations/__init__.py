"""hardneg in other programs: sentence-transformers trainers and Pyserini."""
