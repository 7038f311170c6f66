"""Encode, search, mine: what the verbs `mine` and `train-refreshed` and the trainers share."""
