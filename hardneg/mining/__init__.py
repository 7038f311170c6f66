"""Ranked lists, filters and miners, which turn search results into negatives."""
