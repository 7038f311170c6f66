"""Late-interaction retrievers for hardneg, which encode texts as one vector per token and score with MaxSim."""
