"""Every built-in index against the kit that authors of plugins use."""

import pytest

from hardneg.errors import MissingDependency
from hardneg.indexes import java
from hardneg.indexes.bm25 import Bm25
from hardneg.indexes.flat import Flat
from hardneg.testing import IndexTests


class TestFlat(IndexTests):
    plugin = Flat()


@pytest.mark.slow
class TestBm25(IndexTests):
    plugin = Bm25(k1=1.2)

    @pytest.fixture(autouse=True)
    def started(self) -> None:
        try:
            java.start_java()
        except MissingDependency as error:
            pytest.skip(str(error))
