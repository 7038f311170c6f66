"""Built-in dataset loaders."""
