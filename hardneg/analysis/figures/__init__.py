"""One file a figure: numbers in, a matplotlib figure out. Nothing is drawn to a screen."""
