"""Plugins: their protocols, those that are installed, and their help."""
