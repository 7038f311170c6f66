"""`hardneg.doors.browse`: the page as a function, for notebooks and programs."""

from collections.abc import Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Annotated, Unpack

from hardneg.api.dataset_argument import Dataset
from hardneg.api.keyword_arguments import Keyword, Where, spelled_out, taken
from hardneg.api.mined import MinedNegatives
from hardneg.api.run_argument import AnyRun, run_file
from hardneg.api.workplace import Workplace
from hardneg.doors.browse.arguments import Beside, mined_sources, path_sources
from hardneg.doors.browse.browsed import opened
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.serving import BrowseServer, check_installed, listening

Browsable = str | Path | MinedNegatives | Sequence[str | Path]


class LookedAt(Where, total=False):
    """The options of `browse` beside those of every function."""

    dataset: Annotated["Dataset | None", Keyword("With files, for texts and judgements.")]
    split: Annotated["str | None", Keyword("The queries' split; default train, or that of the negatives.")]
    runs: Annotated["Sequence[AnyRun]", Keyword("Runs beside the negatives, for ranks and scores.", ())]
    filter_by: Annotated["Sequence[AnyRun]", Keyword("Like runs, with the scores of a reranker or guide.", ())]
    dropped: Annotated["str | Path | None", Keyword("What the miner left out, as `hardneg mine` writes it.")]
    marks: Annotated["str | Path | None", Keyword("The file of marks; default NAME.marks.qrels beside what is shown.")]
    port: Annotated["int", Keyword("The port; default: a free one.", 0)]


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
        sources = path_sources([Path(path) for path in paths], own.get("dataset"), own.get("split"), workplace)
    runs = {name: [run_file(each, workplace.store) for each in own.get(name, ())] for name in ("runs", "filter_by")}
    dropped = Path(own["dropped"]) if own.get("dropped") else None
    sources = Beside(runs["runs"], runs["filter_by"], dropped).added(sources)
    marks = Marks(Path(own.get("marks") or sources.marks))
    with ExitStack() as stack:
        browsed = stack.enter_context(opened(sources, workplace.progress))
        server = stack.enter_context(listening(browsed, marks, own.get("port", 0)))
        stack.enter_context(server.beside())
        return BrowsePage(server, stack.pop_all())
