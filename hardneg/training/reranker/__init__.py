"""Training of a reranker: each query with its own documents, pair by pair."""
