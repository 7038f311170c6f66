"""Training of readers on retrieved passages."""
