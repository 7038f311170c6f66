"""Use ranx without numba's compiler, because compiling takes longer than almost any evaluation.

Uncompiled, ranx takes 0.2 microseconds per entry of a ranked list, less than reading the entry from a file.
"""

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardneg.records import MissingDependency, UsageError

_ONE_AT_A_TIME = threading.RLock()  # numba aborts a process with two threads in its parallel loops
_HOME = "IR_DATASETS_HOME"  # ranx imports ir_datasets, which creates this folder


@contextmanager
def ranx_uncompiled(purpose: str) -> Iterator[None]:
    """Let one thread at a time import and call ranx inside the block; numba is unchanged for other libraries.

    If ranx was imported earlier, or `NUMBA_DISABLE_JIT=0` is set, it is compiled. purpose: use of ranx, for messages.

    Raises MissingDependency if ranx cannot be imported, and UsageError if numba rejects its environment variables.
    """
    with _ONE_AT_A_TIME:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "Environment variable 'NUMBA_", RuntimeWarning)
                import numba

            config: Any = numba.config
            before = config.DISABLE_JIT
            if "NUMBA_DISABLE_JIT" not in os.environ and "ranx" not in sys.modules:
                config.DISABLE_JIT = 1
            try:
                with spare_home():
                    from ranx.metrics.common import fix_k
            finally:
                config.DISABLE_JIT = before
        except ImportError as error:
            raise MissingDependency(f'{purpose} needs ranx ({error}); run pip install "hardneg"') from error
        except (ValueError, RuntimeWarning) as error:  # numba reads NUMBA_* when it is imported
            reason = str(error).splitlines()[0].rstrip(".")
            given = ", ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
            raise UsageError(f"{purpose}: numba rejects {given} ({reason}); unset this variable") from error
        config.DISABLE_JIT = 0 if hasattr(fix_k, "py_func") else 1  # its lists read this when they are created
        try:
            yield
        finally:
            config.DISABLE_JIT = before


@contextmanager
def spare_home() -> Iterator[None]:
    """Allow importing ranx inside the block, with a temporary folder for its files if the home is not writable."""
    before = os.environ.get(_HOME)
    try:
        Path(before or Path.home() / ".ir_datasets").mkdir(parents=True, exist_ok=True)
    except OSError:
        with TemporaryDirectory() as folder:
            os.environ[_HOME] = folder
            try:
                yield
            finally:
                del os.environ[_HOME]
                os.environ.update({} if before is None else {_HOME: before})
        return
    yield
