"""Texts as token ids: tokenized, framed, cut into segments and batches, and kept."""
