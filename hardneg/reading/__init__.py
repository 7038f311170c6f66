"""Short answers read from passages: the network, the tokens it reads, the spans it chooses."""
