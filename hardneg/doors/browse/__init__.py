"""A page to look at negatives: what was mined for a query, what was left out, and what may be no negative at all."""
