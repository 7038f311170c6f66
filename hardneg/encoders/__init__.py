"""Encoders based on sentence-transformers."""
