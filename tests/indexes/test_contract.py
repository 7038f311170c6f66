"""The exact indexes against the kit that authors of plugins use."""

import pytest

from hardneg.indexes.backends.bm25 import Bm25
from hardneg.indexes.backends.flat import Flat
from hardneg.testing import IndexTests


class TestFlat(IndexTests):
    plugin = Flat()


@pytest.mark.slow
@pytest.mark.usefixtures("started_java")
class TestBm25(IndexTests):
    plugin = Bm25(k1=1.2)
