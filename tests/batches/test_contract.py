"""The built-in orders of queries against their contract."""

from hardneg.batches.batch_order import OneSource, Shuffled
from hardneg.testing import BatchOrderTests


class TestShuffled(BatchOrderTests):
    plugin = Shuffled()


class TestOneSource(BatchOrderTests):
    plugin = OneSource()
