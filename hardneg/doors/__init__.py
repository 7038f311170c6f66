"""What opens hardneg to others: trainers, Pyserini."""
