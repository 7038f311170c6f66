"""hardneg in other programs: trainers of sentence-transformers, and Pyserini."""
