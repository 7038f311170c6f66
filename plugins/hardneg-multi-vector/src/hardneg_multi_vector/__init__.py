"""Late-interaction encoders: a vector for each token, compared by MaxSim."""
