"""`hardneg browse`: a page of this machine's own to look at negatives."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.cli.adhoc_recipe import stored_dataset
from hardneg.cli.console import bars, say
from hardneg.cli.options import DATASET_OR_OTHER, OVERWRITE, STORE, WRITTEN, open_store
from hardneg.cli.outputs import Target, store_outputs
from hardneg.errors import UsageError
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.browse.browsed import Browsed
    from hardneg.browse.marks import Marks
    from hardneg.browse.sources import BrowseSources

_MARKS = "Where marks go; default beside what is looked at, NAME.marks.qrels."
_EXPORT = "Write the first 200 queries as one page here, and serve nothing."
_GIVEN = "A finished recipe's folder, or files: negatives (.arrow) and TREC runs."


def browse(
    given: list[Path] = typer.Argument(metavar="RUNFOLDER|FILE...", help=_GIVEN),
    dataset: str | None = DATASET_OR_OTHER,
    split: str | None = typer.Option(None, help="The queries' split; default train, or that of the negatives."),
    run: list[Path] = typer.Option([], "--run", help="A TREC run beside the negatives, for ranks and scores."),
    filter_by: list[Path] = typer.Option([], "--filter-by", help="As --run: one of a reranker or guide."),
    dropped: Path | None = typer.Option(None, help="What the miner left out, as `mine --dropped` writes it."),
    marks: Path | None = typer.Option(None, help=_MARKS, rich_help_panel=WRITTEN),
    export: Path | None = typer.Option(None, help=_EXPORT, rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    port: int = typer.Option(0, min=0, max=65535, help="The port; default one that is free."),
    store: Path | None = STORE,
) -> None:
    """Look at negatives in a browser: what was mined, what was left out, what may be relevant after all.

    The page is this machine's alone. What a reader marks as relevant, `mine --also-qrels` takes as positive.

    Example: hardneg browse runs/star-passage-demo

    Example: hardneg browse mined.arrow --dataset beir:FOLDER --run bm25.trec.gz --export page.html
    """
    from hardneg.browse.browsed import opened
    from hardneg.browse.marks import Marks
    from hardneg.browse.serving import check_installed

    if export is None:
        check_installed()
    sources = _sources(given, dataset, split, store)
    sources = _with_more(sources, run, filter_by, dropped)
    written = Marks(marks or sources.marks)
    with opened(sources, bars()) as browsed:
        if export is not None:
            _export(browsed, written, export, overwrite)
        else:
            _serve(browsed, written, port)


def _sources(given: Sequence[Path], dataset: str | None, split: str | None, store: Path | None) -> "BrowseSources":
    from hardneg.browse.sources import is_run_folder, of_files, of_run_folder

    folders = [path for path in given if path.is_dir()]
    if not folders:
        if missing := [path for path in given if not path.is_file()]:
            raise UsageError(f"{missing[0]}: no such file; give a finished recipe's folder, negatives or runs")
        files = of_files(list(given), split or "train")
        if dataset is None:
            return files
        return replace(files, dataset=stored_dataset(AdhocRecipe("browse", dataset), store).path)
    if len(given) > 1:
        raise UsageError("browse: give one folder alone, or files; to compare with a run, add --run FILE")
    if dataset is not None:
        raise UsageError("--dataset: a finished recipe's folder knows its own; leave it out")
    if not is_run_folder(folders[0]):
        raise UsageError(f"{folders[0]}: holds no finished recipe; give the folder that `recipe run` wrote, or files")
    return of_run_folder(folders[0], open_store(store), split)


def _with_more(
    sources: "BrowseSources", runs: Sequence[Path], judging: Sequence[Path], dropped: Path | None
) -> "BrowseSources":
    """With runs that are given beside, and what was dropped of the first negatives."""
    from hardneg.browse.sources import of_files

    if dropped is not None:
        if not sources.negatives:
            raise UsageError("--dropped: goes with a file of negatives")
        sources = replace(sources, dropped={**sources.dropped, next(iter(sources.negatives)): dropped})
    if not runs and not judging:
        return sources
    more = of_files([*runs, *judging], sources.split)
    judges = of_files(list(judging), sources.split).runs if judging else {}
    if wrong := [*more.negatives, *(label for label in more.runs if label in sources.runs)]:
        raise UsageError(f"--run {wrong[0]}: is no run, or its name is that of another one")
    return replace(sources, runs={**sources.runs, **more.runs}, judges=sources.judges | judges.keys())


def _export(browsed: "Browsed", marks: "Marks", target: Path, overwrite: bool) -> None:
    from hardneg.browse.export import export_page

    outputs = store_outputs("browse", [Target(target)], browsed.sources.reads, overwrite)
    with outputs.begun(), outputs.laid_out():
        label = next(iter(browsed.lists))
        count = export_page(browsed, label, marks, target)
        say(f"{target}: {counted(count, 'query')} of {label}")


def _serve(browsed: "Browsed", marks: "Marks", port: int) -> None:
    from hardneg.browse.serving import listening

    with listening(browsed, marks, port) as server:
        say(server.address)
        say(f"marks go to {marks.path}; Ctrl-C ends", err=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the server hears them itself, and ends in order
        server.serve()
