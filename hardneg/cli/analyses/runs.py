"""`hardneg analyze scores`, `overlap`, `holes` and `wins`: of TREC runs, whatever made them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli import completion
from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, Topics, check_plot, drawing, show
from hardneg.cli.evaluate import Level, MoreNames, QrelsFile, RunFiles, baseline_labels, run_labels, split_names
from hardneg.cli.printing import say
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.data.runs import Run

Depth = Annotated[int, typer.Option(min=1, help="How far down the lists are looked at.")]
Baseline = Annotated[str | None, typer.Option("--baseline", help="One of the runs, to overlap with.")]


def scores(
    run: RunFiles,
    depth: Annotated[
        list[int] | None, typer.Option(min=2, help="Where lists are cut; by default 10, 100 and 1000.")
    ] = None,
    single: Annotated[int, typer.Option(min=0, help="So many single queries, drawn by --seed, beside the means.")] = 0,
    query: Annotated[list[str] | None, typer.Option(help="The id of a single query; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="What --single draws by.")] = 42,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show how scores fall with the rank: as shares of the way from the last one of the list to the best.

    Example: hardneg analyze scores --run bm25.trec.gz --run dense.trec.gz --plot scores.svg
    """
    from hardneg.analysis.figures.runs import draw_scores
    from hardneg.analysis.run_tables import score_table
    from hardneg.analysis.score_tails import DEPTHS, single_queries, tails_of

    check_plot(plot, overwrite, run)
    depths = sorted(set(depth or DEPTHS))
    runs = _read(run)
    shown = single_queries(runs, query or single, seed)
    found = {label: tails_of(each, depths, shown) for label, each in runs.items()}
    for label, tails in found.items():
        if not tails:
            raise UsageError(f"{label}: no query has {depths[0]} documents with different scores; give a lower --depth")
    if plot:
        with drawing(plot):
            draw_scores(found, [plot])
    show(found, as_json, *score_table(found))


def overlap(
    run: RunFiles,
    baseline: Baseline = None,
    negatives: Annotated[
        list[Path] | None,
        typer.Option("--negatives", help="A negatives.arrow that was trained on; of the run in the same place."),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="With --negatives: what else is relevant, and no negative.")
    ] = None,
    depth: Depth = 100,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show how much of one run is in another, or how many training negatives the trained model meets in its run.

    Runs are compared each with each, or with --baseline. With --negatives nothing else is compared: the first file is
    of the first run, and so on; one run alone is that of all files.

    Example: hardneg analyze overlap --run dense.trec.gz --run bm25.trec.gz --baseline bm25.trec.gz
    """
    from hardneg.analysis.figures.runs import draw_overlap
    from hardneg.analysis.overlaps import run_overlaps
    from hardneg.analysis.run_tables import overlap_table

    check_plot(plot, overwrite, run, negatives, qrels)
    lists = {
        label: {query_id: ranked.doc_ids for query_id, ranked in each.items()} for label, each in _read(run).items()
    }
    if negatives:
        found: dict[str, Any] = {"depth": depth, "runs": [], "negatives": _met(negatives, lists, qrels, depth)}
    elif len(lists) < 2:
        raise UsageError("analyze overlap: give --run twice, or --negatives")
    else:
        pairs = run_overlaps(lists, depth, _label(baseline, run))
        found = {"depth": depth, "runs": pairs, "negatives": []}
    if plot:
        with drawing(plot):
            draw_overlap(found, [plot])
    show(found, as_json, *overlap_table(found))


def _met(
    negatives: Sequence[Path], lists: Mapping[str, Mapping[str, Sequence[str]]], qrels: Path | None, depth: int
) -> list[dict[str, Any]]:
    from hardneg.analysis.overlaps import negatives_overlap
    from hardneg.data.negatives import read_negatives
    from hardneg.data.qrels import positives, read_qrels

    runs = list(lists.values()) * (len(negatives) if len(lists) == 1 else 1)
    if len(runs) != len(negatives):
        raise UsageError(f"analyze overlap: {len(negatives)} --negatives for {len(runs)} --run: give one of each")
    relevant = positives(read_qrels(qrels)) if qrels else {}
    found = []
    for (path, label), met in zip(run_labels(negatives).items(), runs, strict=True):
        shared = negatives_overlap(read_negatives(path), met.items(), relevant, depth)
        found.append({"training": label, **shared.to_json()})
    return found


def holes(
    qrels: QrelsFile,
    run: RunFiles,
    baseline: Baseline = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", metavar="NAME...", help="Shown beside; by default ndcg@10.", autocompletion=completion.metrics
        ),
    ] = None,
    more_metrics: MoreNames = None,
    depth: Annotated[int, typer.Option(min=1, help="How far down holes are counted.")] = 10,
    overlap_depth: Annotated[int, typer.Option(min=1, help="How far down the overlap is counted.")] = 100,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show how much of what runs rank highest nobody judged, beside metrics and the overlap with one of the runs.

    Example: hardneg analyze holes --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --against bm25.trec.gz
    """
    from hardneg.analysis.figures.runs import draw_holes
    from hardneg.analysis.holes import HoleOptions
    from hardneg.analysis.holes import holes as holes_of
    from hardneg.analysis.run_tables import hole_table
    from hardneg.data.qrels import read_qrels

    check_plot(plot, overwrite, qrels, run)
    names = split_names(metrics or [], more_metrics or []) or ["ndcg@10"]
    options = HoleOptions(depth, _label(baseline, run), overlap_depth, names, relevance_level)
    found = holes_of(_read(run), read_qrels(qrels), options)
    if plot:
        with drawing(plot):
            draw_holes(found, [plot])
    show(found, as_json, *hole_table(found))


def wins(
    qrels: QrelsFile,
    run: Annotated[Path, typer.Option("--run", help="A TREC run.")],
    baseline: Annotated[Path, typer.Option("--baseline", help="The run to compare it with.")],
    metric: Annotated[
        str, typer.Option("--metric", help="What decides.", autocompletion=completion.metrics)
    ] = "ndcg@10",
    queries: Topics = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", help="BEIR's corpus.jsonl, for documents' texts.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many wins and losses to print.")] = 5,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show which queries one run wins and loses against another, and the documents on which the two part.

    Example: hardneg analyze wins --qrels qrels.txt --run dense.trec.gz --baseline bm25.trec.gz --corpus corpus.jsonl
    """
    from hardneg.analysis.figures.runs import draw_wins
    from hardneg.analysis.run_tables import win_table
    from hardneg.analysis.texts import read_texts, read_topics
    from hardneg.analysis.wins import to_json, wins_of
    from hardneg.data.qrels import read_qrels

    check_plot(plot, overwrite, qrels, run, baseline, queries, corpus)
    runs = _read([run, baseline])
    labels, (ours, theirs) = list(runs), list(runs.values())
    decided = wins_of((ours, theirs), read_qrels(qrels), metric, relevance_level)
    topics = read_topics(queries) if queries else {}
    told = to_json(decided, topics, (lambda doc_ids: read_texts(corpus, doc_ids)) if corpus else None)
    found = {"run": labels[0], "against": labels[1], "metric": metric, "examples": limit, **told}
    if plot:
        with drawing(plot):
            draw_wins(found, [plot])
    show(found, as_json, *win_table(found, limit))
    if not as_json:
        say(f"{found['wins']} won, {found['losses']} lost, {found['ties']} equal by {metric}")


def _read(paths: Sequence[Path]) -> "dict[str, Run]":
    from hardneg.data.runs import read_run

    return {label: read_run(path) for path, label in run_labels(paths).items()}


def _label(baseline: str | None, runs: Sequence[Path]) -> str | None:
    return baseline_labels([baseline], run_labels(runs))[0] if baseline else None
