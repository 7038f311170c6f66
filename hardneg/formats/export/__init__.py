"""Negatives in the forms that training programs read: written from ids and a corpus, and read back to ids."""
