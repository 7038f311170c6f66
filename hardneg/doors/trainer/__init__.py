"""Inside sentence-transformers' own trainers: negatives that its model mines again while it trains."""
