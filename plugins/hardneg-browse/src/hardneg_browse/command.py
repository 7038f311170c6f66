"""`hardneg browse`: a page of this machine's own to look at negatives."""

import signal
from pathlib import Path

import typer

from hardneg.plugin import sessions, stores, terminal
from hardneg_browse.application import export_page
from hardneg_browse.browsed import Browsed, opened
from hardneg_browse.marks import Marks
from hardneg_browse.serving import listening
from hardneg_browse.sources import path_sources, with_others

_WRITTEN = "Output"
_DATASET = "beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, or a plugin's name, for texts and judgements."


def browse(
    paths: list[Path] = typer.Argument(
        metavar="RUNFOLDER|FILE...", help="A finished recipe's folder, or files: negatives (.arrow) and TREC runs."
    ),
    dataset: str | None = typer.Option(None, help=_DATASET),
    split: str | None = typer.Option(None, help="The queries' split; default train, or that of the negatives."),
    run: list[Path] = typer.Option([], help="TREC runs beside the negatives, for ranks and scores."),
    dropped: Path | None = typer.Option(None, help="What the miner left out, as `hardneg mine` writes it."),
    marks: Path | None = typer.Option(
        None, help="The file of marks; default NAME.marks.qrels beside what is shown.", rich_help_panel=_WRITTEN
    ),
    export: Path | None = typer.Option(
        None, help="Write the first 200 queries as one page here, and serve nothing.", rich_help_panel=_WRITTEN
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=_WRITTEN
    ),
    port: int = typer.Option(0, min=0, max=65535, help="The port; default: a free one."),
    store: str | None = typer.Option(None, help="The artifact store; default $HARDNEG_STORE or the usual one."),
) -> None:
    """Look at negatives in a browser: what was mined, what was left out, what may be relevant after all.

    The page is served to this machine only. `mine --also-qrels` takes documents marked as relevant as positives.

    Example: hardneg browse runs/star-passage-demo

    Example: hardneg browse mined.arrow --dataset beir:FOLDER --run bm25.trec.gz --export page.html
    """
    with terminal.flags_named(lambda name: "--run" if name == "runs" else f"--{name.replace('_', '-')}"):
        bars = terminal.bars()
        session = sessions.Session.of({"store": store, "progress": bars})
        sources = path_sources(paths, dataset, split, session)
        sources = with_others(sources, run, dropped)
        written = Marks(marks or sources.marks)
        with opened(sources, bars) as browsed:
            if export is None:
                return _serve(browsed, written, port)
            target, words = stores.Target(export), stores.Words("--export", "--overwrite", "hardneg {}")
            outputs = stores.Outputs("browse", [target], sources.reads, session.store, overwrite, words=words)
            with outputs.begun(), outputs.laid_out():
                label = next(iter(browsed.lists))
                count = export_page(browsed, label, written, export)
                terminal.say(f"{export}: {count:,} {'query' if count == 1 else 'queries'} of {label}")


def _serve(browsed: Browsed, marks: Marks, port: int) -> None:
    with listening(browsed, marks, port) as page:
        terminal.say(page.address)
        terminal.say(f"marks go to {marks.path}; Ctrl-C ends", err=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the server hears them itself, and ends in order
        page.serve()
