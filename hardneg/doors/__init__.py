"""What opens hardneg to others: a browser, the Hugging Face hub, mteb, trainers, Pyserini."""
