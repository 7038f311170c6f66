"""Late-interaction retrievers for hardneg: a vector for each token, compared by MaxSim."""
