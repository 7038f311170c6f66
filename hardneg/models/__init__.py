"""Encoders on sentence-transformers."""
