"""Models, indexes, negatives and runs on the Hugging Face hub: which files may go, the card, and the upload."""
