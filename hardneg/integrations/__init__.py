"""hardneg in other programs: trainers of sentence-transformers, and the lines by which Pyserini opens its output."""
