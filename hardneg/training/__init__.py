"""Training: examples, batches, the loop, its methods, checkpoints and refreshes."""
