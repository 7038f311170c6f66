"""A corpus encoded block by block into an index folder, or shard by shard."""
