"""Encoding as if the package were not installed."""

from typing import Any
from unittest.mock import patch


def without_package() -> Any:
    """Return a context in which the package's faster kernels are not used."""
    return patch("hardneg.encoders.towers.faster", lambda name: None)
