"""What opens hardneg to others: the Hugging Face hub, mteb, trainers, Pyserini."""
