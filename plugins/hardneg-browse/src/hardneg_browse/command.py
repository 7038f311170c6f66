"""The command `hardneg browse`."""

import signal
from pathlib import Path

import typer

from hardneg.plugin import sessions, stores, terminal
from hardneg_browse.application import export_pages
from hardneg_browse.browsed import Browsed, opened
from hardneg_browse.serving import listening
from hardneg_browse.sources import Marks, path_sources, with_others

_WRITTEN = "Output"
_DATASET = "beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, or a plugin's name, for texts and judgements."


def browse(
    paths: list[Path] = typer.Argument(
        metavar="RUNFOLDER|FILE...", help="A run folder, or files: negatives (.arrow) and TREC runs."
    ),
    dataset: str | None = typer.Option(None, help=_DATASET),
    split: str | None = typer.Option(None, help="Split of the queries; default: the split of the negatives, or train."),
    run: list[Path] = typer.Option([], help="A TREC run to show ranks and scores from; may be repeated."),
    dropped: Path | None = typer.Option(None, help="File of dropped candidates, written by `hardneg mine --dropped`."),
    marks: Path | None = typer.Option(
        None, help="File of marks; default: NAME.marks.qrels next to the input.", rich_help_panel=_WRITTEN
    ),
    export: Path | None = typer.Option(
        None, help="Write static pages of the first 200 queries to this folder.", rich_help_panel=_WRITTEN
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=_WRITTEN
    ),
    port: int = typer.Option(0, min=0, max=65535, help="Port; default: a free one."),
    store: str | None = typer.Option(None, help="Artifact store; default: $HARDNEG_STORE or ~/.cache/hardneg/store."),
) -> None:
    """Inspect mined negatives, dropped candidates and likely false negatives in a browser.

    Only this machine can open the page. Pass the file of your marks to `mine --also-qrels` to use them as positives.

    Example: hardneg browse runs/star-passage-demo

    Example: hardneg browse mined.arrow --dataset beir:FOLDER --run bm25.trec.gz --export pages
    """
    with terminal.flags_named(lambda name: "--run" if name == "runs" else f"--{name.replace('_', '-')}"):
        bars = terminal.Bars()
        session = sessions.Session.of({"store": store, "progress": bars})
        sources = path_sources(paths, dataset, split, session)
        sources = with_others(sources, run, dropped)
        written = Marks(marks or sources.marks)
        with opened(sources, bars) as browsed:
            if export is None:
                return _serve(browsed, written, port)
            read = [*sources.negatives.values(), *sources.dropped.values(), *sources.runs.values()]
            target, words = stores.Target(export, folder=True), stores.Words("--export", "--overwrite", "hardneg {}")
            outputs = stores.Outputs("browse", [target], read, session.store, overwrite, words=words)
            with outputs.reserve(), outputs.publish(), stores.replacing_folder(export) as folder:
                count = export_pages(browsed, written, folder)
            terminal.say(f"{export / 'index.html'}: {count:,} {'query' if count == 1 else 'queries'}")


def _serve(browsed: Browsed, marks: Marks, port: int) -> None:
    with listening(browsed, marks, port) as page:
        terminal.say(page.address)
        terminal.say(f"marks are saved in {marks.path}; Ctrl-C stops the server", err=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the server handles them itself
        page.serve()
