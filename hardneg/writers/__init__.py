"""Built-in writers of queries, from passages alone."""
