"""A web page for mined negatives: what the miner took and left out, and likely false negatives."""
