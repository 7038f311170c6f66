"""faiss's indexes: made, moved to GPUs, and searched."""
