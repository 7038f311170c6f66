"""`hardneg browse`: a page of this machine's own to look at negatives."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.api.arguments import options_of
from hardneg.cli.console import bars, say
from hardneg.cli.options import DATASET_OR_OTHER, OVERWRITE, STORE, WRITTEN, flags_but, flags_named
from hardneg.cli.planned_work import opened as opened_store
from hardneg.cli.planned_work import store_outputs
from hardneg.doors.browse.looked_at import LookedAt
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.doors.browse.browsed import Browsed
    from hardneg.doors.browse.marks import Marks

_OWN = options_of(LookedAt)
_EXPORT = "Write the first 200 queries as one page here, and serve nothing."
_SOURCES = "A finished recipe's folder, or files: negatives (.arrow) and TREC runs."


@flags_named(flags_but(runs="--run"))
def browse(
    paths: list[Path] = typer.Argument(metavar="RUNFOLDER|FILE...", help=_SOURCES),
    dataset: str | None = DATASET_OR_OTHER,
    split: str | None = typer.Option(None, help=_OWN["split"].help),
    run: list[Path] = typer.Option([], "--run", help=_OWN["runs"].help),
    filter_by: list[Path] = typer.Option([], "--filter-by", help=_OWN["filter_by"].help),
    dropped: Path | None = typer.Option(None, help=_OWN["dropped"].help),
    marks: Path | None = typer.Option(None, help=_OWN["marks"].help, rich_help_panel=WRITTEN),
    export: Path | None = typer.Option(None, help=_EXPORT, rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    port: int = typer.Option(_OWN["port"].default, min=0, max=65535, help=_OWN["port"].help),
    store: Path | None = STORE,
) -> None:
    """Look at negatives in a browser: what was mined, what was left out, what may be relevant after all.

    The page is served to this machine only. `mine --also-qrels` takes documents marked as relevant as positives.

    Example: hardneg browse runs/star-passage-demo

    Example: hardneg browse mined.arrow --dataset beir:FOLDER --run bm25.trec.gz --export page.html
    """
    from hardneg.doors.browse.browsed import opened
    from hardneg.doors.browse.marks import Marks
    from hardneg.doors.browse.serving import check_installed
    from hardneg.doors.browse.sources import path_sources, with_others

    if export is None:
        check_installed()
    sources = path_sources(paths, dataset, split, opened_store(store))
    sources = with_others(sources, run, filter_by, dropped)
    written = Marks(marks or sources.marks)
    with opened(sources, bars()) as browsed:
        if export is not None:
            _export(browsed, written, export, overwrite)
        else:
            _serve(browsed, written, port)


def _export(browsed: "Browsed", marks: "Marks", target: Path, overwrite: bool) -> None:
    from hardneg.doors.browse.application import export_page

    outputs = store_outputs("browse", [Target(target)], browsed.sources.reads, overwrite)
    with outputs.begun(), outputs.laid_out():
        label = next(iter(browsed.lists))
        count = export_page(browsed, label, marks, target)
        say(f"{target}: {counted(count, 'query')} of {label}")


def _serve(browsed: "Browsed", marks: "Marks", port: int) -> None:
    from hardneg.doors.browse.serving import listening

    with listening(browsed, marks, port) as server:
        say(server.address)
        say(f"marks go to {marks.path}; Ctrl-C ends", err=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the server hears them itself, and ends in order
        server.serve()
