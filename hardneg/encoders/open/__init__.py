"""Resolution of a model's name to its modules: its folder, its files, their declarations, loading and saving."""
