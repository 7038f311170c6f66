"""Question answering for hardneg: readers, their training, and the verbs `train-reader` and `read`."""
