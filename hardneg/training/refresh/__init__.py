"""Negatives mined again and again, by the model as it is while it trains."""
