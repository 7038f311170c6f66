"""What indexes are made of."""
