"""A reranker over ELECTRA's discriminator, for hardneg."""
