"""Late-interaction retrievers for hardneg, with one vector per token, compared by MaxSim."""
