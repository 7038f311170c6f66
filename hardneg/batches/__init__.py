"""Which training queries share a batch: orders of an epoch's queries, as plugins of `hardneg.batches`."""
