"""What opens hardneg to others: mteb, trainers, Pyserini."""
