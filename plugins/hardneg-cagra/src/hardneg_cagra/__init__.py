"""An index for hardneg: a graph of vectors that cuVS builds and searches on a GPU."""
