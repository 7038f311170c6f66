"""The store: artifacts, what names them, files written whole or not at all, and which results use which."""
