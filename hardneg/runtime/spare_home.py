"""A home for ir_datasets, which ranx imports and which makes a folder there, where the user's cannot be written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_HOME = "IR_DATASETS_HOME"


@contextmanager
def spare_home() -> Iterator[None]:
    """Lets ranx be imported in the block, whether or not its libraries can write to the user's home."""
    try:
        Path(os.environ.get(_HOME) or Path.home() / ".ir_datasets").mkdir(parents=True, exist_ok=True)
    except OSError:
        before = os.environ.get(_HOME)
        with TemporaryDirectory() as folder:
            os.environ[_HOME] = folder
            try:
                yield
            finally:
                os.environ.pop(_HOME)
                os.environ.update({_HOME: before} if before else {})
        return
    yield
