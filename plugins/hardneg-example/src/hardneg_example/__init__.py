"""An example of a plugin package for hardneg."""
