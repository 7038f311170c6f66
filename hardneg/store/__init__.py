"""The store: artifacts and their keys, files written whole or not at all, and the artifacts that results use."""
