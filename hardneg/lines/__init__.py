"""Lines: a few verbs, one after another, as one command and one function."""
