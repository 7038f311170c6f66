"""Every verb as a function: the same recipes in memory as the commands make, in the same store, under the same keys."""
