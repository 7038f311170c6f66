"""The server: on 127.0.0.1 alone, in this thread or beside it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardneg.doors.browse.application import Site, application
from hardneg.doors.browse.browsed import Browsed
from hardneg.doors.browse.guard import HOST, Access
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.survey import Survey
from hardneg.records.errors import MissingDependency, UsageError

if TYPE_CHECKING:
    import uvicorn


def check_installed() -> None:
    """Raises MissingDependency where the server's packages are not there."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f'the page needs starlette and uvicorn ({error}); pip install "hardneg[browse]"'
        ) from error


@dataclass(frozen=True)
class BrowseServer:
    """A listening server. address: with its token; marks: the file of marks."""

    access: Access
    marks: Marks
    survey: Survey
    _server: "uvicorn.Server"
    _socket: socket.socket

    @property
    def address(self) -> str:
        """The address to open."""
        return self.access.address

    def serve(self) -> None:
        """Answer until the process stops."""
        self._server.run(sockets=[self._socket])

    @contextmanager
    def beside(self) -> Iterator["BrowseServer"]:
        """Answer in another thread during the block."""
        thread = threading.Thread(target=self.serve, name="browse", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.should_exit = True
            thread.join()


@contextmanager
def listening(browsed: Browsed, marks: Marks, port: int = 0) -> Iterator[BrowseServer]:
    """A server of the opened data; port 0 is any that is free. Requests before `serve` wait.

    Raises:
        MissingDependency: the server's packages are not installed.
        UsageError: the port is taken.
    """
    check_installed()
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
            bound.listen()
        except OSError as error:
            message = f"{{port}} {port}: cannot be listened at ({error.strerror}); give another, or none"
            raise UsageError(message, "port") from None
        access, survey = Access(bound.getsockname()[1]), Survey(browsed)
        app = application(Site(browsed, survey, marks, access))
        settings = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        survey.start()
        try:
            yield BrowseServer(access, marks, survey, uvicorn.Server(settings), bound)
        finally:
            survey.stop()
