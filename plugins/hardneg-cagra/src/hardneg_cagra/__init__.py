"""An index for hardneg: a graph of vectors, built and searched on a GPU by cuVS."""
