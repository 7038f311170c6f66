"""`hardneg.doors.browse`: the page as a function, for notebooks and programs."""

from collections.abc import Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Unpack

from hardneg.api.arguments import spelled_out, taken
from hardneg.api.mined import MinedNegatives
from hardneg.api.run_argument import run_file
from hardneg.api.workplace import Workplace
from hardneg.doors.browse.arguments import Beside, mined_sources, path_sources
from hardneg.doors.browse.browsed import opened
from hardneg.doors.browse.looked_at import LookedAt
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.serving import BrowseServer, check_installed, listening

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

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    sources = Beside(runs["runs"], runs["filter_by"], dropped).added(sources)
    marks = Marks(Path(own["marks"] or sources.marks))
    with ExitStack() as stack:
        browsed = stack.enter_context(opened(sources, workplace.progress))
        server = stack.enter_context(listening(browsed, marks, own["port"]))
        stack.enter_context(server.beside())
        return BrowsePage(server, stack.pop_all())
