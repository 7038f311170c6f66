"""faiss indexes: built, copied to GPUs, and searched."""
