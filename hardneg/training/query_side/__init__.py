"""Training of the query encoder alone, on a fixed index of documents."""
