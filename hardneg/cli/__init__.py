"""The command-line interface; no other part of hardneg uses the terminal."""
