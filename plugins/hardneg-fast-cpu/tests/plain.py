"""Encoding as without the package."""

from typing import Any
from unittest.mock import patch


def without_package() -> Any:
    """A context in which no faster passes are known."""
    return patch("hardneg.encoders.towers.faster", lambda name: None)
