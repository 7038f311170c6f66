from typing import Any

import pytest

from hardneg.indexes.kernels.lucene.java import start_java
from hardneg.records.errors import MissingDependency


@pytest.fixture(scope="module")
def opened() -> Any:
    """Pyserini's FaissSearcher."""
    try:
        start_java()
    except MissingDependency as error:
        pytest.skip(str(error))
    from pyserini.search.faiss import FaissSearcher

    return FaissSearcher
