"""Ranked lists, filters and miners: from search results to negatives."""
