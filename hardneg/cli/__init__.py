"""The command line: the only part that talks to the terminal."""
