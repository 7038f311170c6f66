"""From a model's name to its modules: locating the files, reading what they declare, loading and saving."""
