"""`hardneg analyze depths`, `candidates` and `dimensions`: what first stages find, from TREC runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hardneg.cli import completion
from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, check_plot, drawing, show
from hardneg.cli.evaluate import Level, QrelsFile, RunFiles, run_labels
from hardneg.errors import UsageError

Metric = Annotated[str, typer.Option("--metric", help="What is measured.", autocompletion=completion.metrics)]


def depths(
    qrels: QrelsFile,
    run: RunFiles,
    depth: Annotated[
        list[int] | None, typer.Option(min=1, help="Where recall is measured; by default 100, 200 and 1000.")
    ] = None,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the recall of runs at several depths, and nDCG at the deepest.

    Example: hardneg analyze depths --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --relevance-level 2
    """
    from hardneg.analysis.depths import DEPTHS
    from hardneg.analysis.depths import depths as depths_of
    from hardneg.analysis.figures.first_stage import draw_depths
    from hardneg.analysis.first_stage_tables import depth_table
    from hardneg.data.qrels import read_qrels
    from hardneg.data.runs import read_run

    check_plot(plot, overwrite, qrels, run)
    runs = {label: read_run(path) for path, label in run_labels(run).items()}
    found = depths_of(runs, read_qrels(qrels), sorted(set(depth or DEPTHS)), relevance_level)
    if plot:
        with drawing(plot):
            draw_depths(found, [plot])
    show(found, as_json, *depth_table(found))


def candidates(
    qrels: QrelsFile,
    run: RunFiles,
    reranked: Annotated[list[Path], typer.Option("--reranked", help="The run in the same place, reranked.")],
    depth: Annotated[list[int] | None, typer.Option(min=1, help="How many candidates; by default 16 to 1000.")] = None,
    metric: Metric = "ndcg@10",
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the quality of reranking fewer candidates, and their recall, from runs that were reranked once.

    Example: hardneg analyze candidates --qrels qrels.txt --run bm25.trec.gz --reranked bm25-reranked.trec.gz
    """
    from hardneg.analysis.candidates import COUNTS, CandidateOptions
    from hardneg.analysis.candidates import candidates as candidates_of
    from hardneg.analysis.figures.first_stage import draw_candidates
    from hardneg.analysis.first_stage_tables import candidate_table
    from hardneg.data.qrels import read_qrels
    from hardneg.data.runs import read_run

    check_plot(plot, overwrite, qrels, run, reranked)
    if len(run) != len(reranked):
        raise UsageError(f"analyze candidates: {len(reranked)} --reranked for {len(run)} --run: give one of each")
    pairs = zip(run_labels(run).items(), reranked, strict=True)
    runs = {label: (read_run(first), read_run(second)) for (first, label), second in pairs}
    options = CandidateOptions(sorted(set(depth or COUNTS)), metric, relevance_level)
    found = candidates_of(runs, read_qrels(qrels), options)
    content = {"metric": metric, "counts": options.counts, "relevance_level": relevance_level, "runs": found}
    if plot:
        with drawing(plot):
            draw_candidates(content, [plot])
    show(content, as_json, *candidate_table(content))


def dimensions(
    qrels: QrelsFile,
    run: Annotated[
        list[str], typer.Option("--run", metavar="[LABEL:]SIZE=PATH", help="A run of a model with vectors of SIZE.")
    ],
    metric: Metric = "recall@200",
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show a metric by the size of vectors.

    Example: hardneg analyze dimensions --qrels qrels.txt --run 32=cort-32.trec.gz --run 128=cort-128.trec.gz
    """
    from hardneg.analysis.depths import dimensions as dimensions_of
    from hardneg.analysis.figures.first_stage import draw_dimensions
    from hardneg.analysis.first_stage_tables import dimension_table
    from hardneg.data.qrels import read_qrels
    from hardneg.data.runs import read_run

    check_plot(plot, overwrite, qrels)
    series = {label: {size: read_run(path) for size, path in runs.items()} for label, runs in _sized(run).items()}
    found = dimensions_of(series, read_qrels(qrels), metric, relevance_level)
    if plot:
        with drawing(plot):
            draw_dimensions(found, [plot])
    show(found, as_json, *dimension_table(found))


def _sized(given: Sequence[str]) -> dict[str, dict[int, Path]]:
    """Paths by label and size."""
    found: dict[str, dict[int, Path]] = {}
    for text in given:
        named, _, path = text.partition("=")
        label, _, size = named.rpartition(":")
        if not path or not size.isascii() or not size.isdigit() or int(size) < 1:
            raise UsageError(f"--run {text}: must be SIZE=PATH or LABEL:SIZE=PATH, the size a whole number above 0")
        if int(size) in found.setdefault(label or "run", {}):
            raise UsageError(f"--run {text}: {named} is given twice")
        found[label or "run"][int(size)] = Path(path)
    return found
