"""What tests of the page share: something to look at, opened."""

import pytest
from doors.browse.material import small_sources

from hardneg.doors.browse.browsed import opened
from hardneg.runtime.progress import Silent


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    return small_sources(tmp_path_factory.mktemp("looked-at"))


@pytest.fixture(scope="session")
def browsed(sources):
    with opened(sources, Silent()) as found:
        yield found
