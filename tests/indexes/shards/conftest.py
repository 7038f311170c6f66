"""What tests of shards share: an index of each form."""

from pathlib import Path

import pytest
from encoded_forms import FORMS, write_encoded
from indexes.shards.parts import documents


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return {form: write_encoded(folder / form, documents(form)) for form in FORMS}
