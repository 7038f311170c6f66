"""The server, on 127.0.0.1 only, and `hardneg.browse`, which runs it in another thread."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from hardneg.plugin import errors, given, runtime, sessions
from hardneg_browse.application import HOST, Access, Site, application
from hardneg_browse.browsed import Browsed, opened
from hardneg_browse.query_page import Survey
from hardneg_browse.sources import Marks, mined_sources, path_sources, with_others


class BrowsePage:
    """A served web page of negatives. `close`, the end of a `with` block, or the end of the process stops the server.

    address: its URL on this machine, with a token. marks: the file of marks.
    """

    def __init__(self, browsed: Browsed, marks: Marks, bound: socket.socket) -> None:
        self.access, self.marks, self.survey = Access(bound.getsockname()[1]), marks.path, Survey(browsed)
        self.address, self._socket = self.access.address, bound
        settings = uvicorn.Config(
            application(Site(browsed, self.survey, marks, self.access)),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._server, self._held = uvicorn.Server(settings), ExitStack()

    def serve(self) -> None:
        """Serve until the process is stopped."""
        self._server.run(sockets=[self._socket])

    @contextmanager
    def beside(self) -> Iterator["BrowsePage"]:
        """Serve in another thread during a `with` block, and yield this page."""
        thread = threading.Thread(target=self.serve, name="browse", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.should_exit = True
            thread.join()

    def close(self) -> None:
        """Stop the server and remove its temporary files."""
        self._held.close()

    def __enter__(self) -> "BrowsePage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"BrowsePage({self.address})"


@contextmanager
def listening(browsed: Browsed, marks: Marks, port: int = 0) -> Iterator[BrowsePage]:
    """Bind a port during a `with` block and yield the page to serve. Port 0: any free port. Requests wait for `serve`.

    Raises:
        UsageError: the port cannot be used.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
            bound.listen()
        except OSError as error:
            message = f"{{port}} {port}: cannot be used ({error.strerror}); choose another, or omit it"
            raise errors.UsageError(message, "port") from None
        page = BrowsePage(browsed, marks, bound)
        page.survey.start()
        try:
            yield page
        finally:
            page.survey.stop()


def browse(
    what: str | Path | Sequence[str | Path] | Any,
    *,
    dataset: Any = None,
    split: str | None = None,
    runs: Sequence[Any] = (),
    dropped: str | Path | None = None,
    marks: str | Path | None = None,
    port: int = 0,
    store: str | Path | None = None,
    progress: bool | runtime.Progress = False,
) -> BrowsePage:
    """Serve a web page of negatives on this machine, in another thread, and return the page.

    Args:
        what: a run folder, the result of `hardneg.mine`, or files of negatives and runs.
        dataset: source of texts and judgements if `what` is files; in any form that `hardneg.mine` accepts.
        split: split of the queries; default: the split of the negatives, or train.
        runs: TREC runs to show ranks and scores from.
        dropped: file of candidates that the miner dropped, as written by `hardneg mine --dropped`.
        marks: file of marks; default: NAME.marks.qrels next to the input.
        port: port number; 0 for any free port.
        store: artifact store; default: $HARDNEG_STORE or ~/.cache/hardneg/store.
        progress: whether to show progress bars, or an object that shows them.

    Raises:
        UsageError: arguments contradict each other, or the port is in use.
        DataError, ArtifactError: a file is missing or malformed.
    """
    session = sessions.Session.of({"store": store, "progress": progress})
    if isinstance(what, str | Path | Sequence):
        paths = [what] if isinstance(what, str | Path) else what
        sources = path_sources([Path(path) for path in paths], dataset, split, session)
    else:
        sources = mined_sources(what)
    listed = [given.run_file(each, session.store) for each in runs]
    sources = with_others(sources, listed, Path(dropped) if dropped else None)
    with ExitStack() as stack:
        browsed = stack.enter_context(opened(sources, session.progress))
        page = stack.enter_context(listening(browsed, Marks(Path(marks or sources.marks)), port))
        stack.enter_context(page.beside())
        page._held = stack.pop_all()
        return page
