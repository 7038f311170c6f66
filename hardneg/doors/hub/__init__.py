"""Models, indexes, negatives and runs on the Hugging Face hub: what may go there, its card, and the upload."""
