"""From a model's name to its modules: its folder, its files, what they say, and loading and saving them."""
