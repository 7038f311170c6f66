"""MaxSim, by which documents with a vector for each token are scored."""
