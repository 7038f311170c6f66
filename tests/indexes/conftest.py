from typing import Any

import pytest


@pytest.fixture(scope="module")
def opened(started_java: None) -> Any:
    """Pyserini's FaissSearcher."""
    from pyserini.search.faiss import FaissSearcher

    return FaissSearcher
