"""Dense encoders: a transformer and one vector a text."""
