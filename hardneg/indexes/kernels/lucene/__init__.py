"""Lucene's indexes: Java started, indexes searched, written and read."""
