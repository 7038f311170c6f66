"""Use of hardneg with other programs: sentence-transformers trainers and Pyserini."""
