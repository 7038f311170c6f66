"""The store's own rules."""
