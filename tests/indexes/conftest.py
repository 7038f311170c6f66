from typing import Any

import pytest

from hardneg.errors import MissingDependency
from hardneg.indexes.java import start_java


@pytest.fixture(scope="module")
def opened() -> Any:
    """Pyserini's FaissSearcher."""
    try:
        start_java()
    except MissingDependency as error:
        pytest.skip(str(error))
    from pyserini.search.faiss import FaissSearcher

    return FaissSearcher
