"""The server of the page, on 127.0.0.1 alone, for the command; the page as a function, for notebooks."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from hardneg.api.arguments import spelled_out, taken
from hardneg.api.mined import MinedNegatives
from hardneg.api.run_argument import run_file
from hardneg.api.workplace import Workplace
from hardneg.doors.browse.application import Site, application
from hardneg.doors.browse.browsed import Browsed, opened
from hardneg.doors.browse.guard import HOST, Access
from hardneg.doors.browse.looked_at import LookedAt
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.sources import mined_sources, path_sources, with_others
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


Browsable = str | Path | MinedNegatives | Sequence[str | Path]


class BrowsePage:
    """A page that is served until `close`, or the end of a `with` block, or of the process.

    address: the address on this machine. marks: the file of marks.
    """

    def __init__(self, server: BrowseServer, held: ExitStack) -> None:
        self.address, self.marks = server.address, server.marks.path
        self._held = held

    def close(self) -> None:
        """Ends the page."""
        self._held.close()

    def __enter__(self) -> "BrowsePage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"BrowsePage({self.address})"

    def _repr_html_(self) -> str:
        address = escape(self.address)
        return f'<p><a href="{address}" target="_blank" rel="noreferrer">{address}</a></p>'


@spelled_out
def browse(what: Browsable, **options: Unpack[LookedAt]) -> BrowsePage:
    """Serve a page of negatives on this machine, in another thread.

    Args:
        what: a finished recipe's folder, what `hardneg.mine` returned, or files of negatives and runs.
        options: `LookedAt`, and what every function takes (`Where`).

    Raises:
        MissingDependency: the server's packages are not installed.
        UsageError: arguments do not go together, or the port is taken.
        DataError, ArtifactError: a file is missing or malformed.
    """
    check_installed()
    own = taken(options, LookedAt)
    workplace = Workplace.of(options)
    if isinstance(what, MinedNegatives):
        sources = mined_sources(what)
    else:
        paths = [what] if isinstance(what, str | Path) else what
        sources = path_sources([Path(path) for path in paths], own["dataset"], own["split"], workplace)
    runs = {name: [run_file(each, workplace.store) for each in own[name]] for name in ("runs", "filter_by")}
    dropped = Path(own["dropped"]) if own["dropped"] else None
    sources = with_others(sources, runs["runs"], runs["filter_by"], dropped)
    marks = Marks(Path(own["marks"] or sources.marks))
    with ExitStack() as stack:
        browsed = stack.enter_context(opened(sources, workplace.progress))
        server = stack.enter_context(listening(browsed, marks, own["port"]))
        stack.enter_context(server.beside())
        return BrowsePage(server, stack.pop_all())
