"""What the papers look at besides effectiveness: pairwise errors, how negatives age, projections, costs."""
