"""What keeps a cluster that is started here to this user: it listens on the loopback, and asks for a token."""

import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def fenced() -> Iterator[None]:
    """For the life of a cluster that is started within the block.

    Ray has one setting by which all of its processes listen on the loopback alone: that its clusters have one machine,
    as is usual on macOS. The token is new each time, in a file that this user alone may read; processes that Ray starts
    inherit its place.
    """
    many, before = ray_constants.ENABLE_RAY_CLUSTER, {name: os.environ.get(name) for name in _VARIABLES}
    with tempfile.TemporaryDirectory(prefix="hardneg-ray-") as folder:
        token = Path(folder) / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        ray_constants.ENABLE_RAY_CLUSTER = False
        _ask_for({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)})
        try:
            yield
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = many
            _ask_for(before)


def _ask_for(wanted: Mapping[str, str | None]) -> None:
    """Ray reads its settings once: it has to read them again."""
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
