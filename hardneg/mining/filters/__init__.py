"""Built-in filters: which candidates are no negatives, whatever the miner."""
