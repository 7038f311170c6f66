"""What tests of the page share: something to look at, opened. They run in hardneg's sources, with its helpers."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]
from package_fixtures import own_store, tiny_model  # noqa: E402, F401

from hardneg.runtime import Silent  # noqa: E402


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    from material import small_sources

    return small_sources(tmp_path_factory.mktemp("looked-at"))


@pytest.fixture(scope="session")
def browsed(sources):
    from hardneg_browse.browsed import opened

    with opened(sources, Silent()) as found:
        yield found
