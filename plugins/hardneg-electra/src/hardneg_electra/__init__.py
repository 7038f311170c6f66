"""A reranker for hardneg, based on ELECTRA's discriminator."""
