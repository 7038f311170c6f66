"""A corpus encoded block by block into an index folder."""
