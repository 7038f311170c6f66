"""How long tests wait for other processes: as long as pytest's own limit lets them."""

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[Any] | None = None) -> None:
    """Returns once the condition holds; fails where the process that is to bring it about has ended before."""
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            out, errors = process.communicate()
            raise AssertionError(f"ended with code {process.returncode}: {errors or out}")
        time.sleep(0.02)
