"""Frozen records with the field's words, errors, wording, and the names of files in artifacts."""
