"""Where the blocks of a stage are made: built-in engines."""
