"""Encode, search, mine: shared by the verbs `mine` and `train-refreshed` and the trainers."""
