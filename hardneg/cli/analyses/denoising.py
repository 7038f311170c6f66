"""`hardneg analyze denoising` and `planted`: of filters of negatives, from plain files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, Topics, check_plot, drawing, show
from hardneg.cli.evaluate import QrelsFile, run_labels
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.analysis.planted import Asked

_NEGATIVES = "negatives.arrow"


def denoising(
    dropped: Annotated[
        list[Path], typer.Argument(metavar="DROPPED...", help="dropped.arrow files, each beside its negatives.arrow.")
    ],
    queries: Topics = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", help="BEIR's corpus.jsonl, for documents' texts.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many queries to print of each.")] = 5,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Show what a filter of negatives dropped: the share at each rank, and the documents it was most sure of.

    Example: hardneg analyze denoising mined/dropped.arrow --queries queries.jsonl --corpus corpus.jsonl --plot d.svg
    """
    from hardneg.analysis.denoising import shares, to_json
    from hardneg.analysis.denoising_tables import example_table, share_table
    from hardneg.analysis.figures.denoising import draw_denoising

    check_plot(plot, overwrite, dropped, queries, corpus)
    labels = run_labels(dropped)
    filters = {label: to_json(shares(path)) for path, label in labels.items()}
    shown = [case for path, label in labels.items() for case in _examples(path, label, (queries, corpus), limit)]
    found = {"filters": filters, "examples": shown}
    if plot:
        with drawing(plot):
            draw_denoising(found, [plot])
    show(found, as_json, *share_table(filters))
    if shown and not as_json:
        show(found, as_json, *example_table(shown))


def _examples(
    dropped: Path, label: str, texts: tuple[Path | None, Path | None], count: int
) -> Iterator[dict[str, Any]]:
    from hardneg.analysis.denoising import doc_ids_of, example_json, examples
    from hardneg.analysis.texts import read_texts, read_topics

    queries, corpus = texts
    negatives = dropped.with_name(_NEGATIVES)
    if count and not negatives.is_file():
        raise UsageError(f"{negatives}: not there, and examples need it; give --limit 0 for the shares alone")
    cases = examples(dropped, negatives, count)
    topics = read_topics(queries) if queries and cases else {}
    known = read_texts(corpus, doc_ids_of(cases)) if corpus and cases else {}
    return ({"filter": label, **example_json(case, topics, known)} for case in cases)


def planted(
    run: Annotated[Path, typer.Option("--run", help="The TREC run whose documents are filtered.")],
    qrels: QrelsFile,
    withheld: Annotated[Path, typer.Option("--withheld", help="Judgements that the filters do not know.")],
    filter_by: Annotated[
        list[Path] | None, typer.Option("--filter-by", help="A TREC run whose scores decide; default: those of --run.")
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option("--threshold", metavar="FILTER=VALUE", help="To try; default: a grid of them.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="How far down the lists are filtered.")] = 50,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure filters of negatives by positives hidden from them: how many each removes, and what else.

    Copies of documents are not known here. Queries without known positives are left out.

    Example: hardneg analyze planted --run dense.trec.gz --filter-by ce.trec.gz --qrels known.txt --withheld hidden.txt
    """
    from hardneg.analysis.denoising_tables import planted_table
    from hardneg.analysis.figures.denoising import draw_planted
    from hardneg.analysis.planted import THRESHOLDS
    from hardneg.analysis.planted import planted as planted_of

    check_plot(plot, overwrite, run, qrels, withheld, filter_by)
    grid = _grid(threshold) if threshold else THRESHOLDS
    labels = run_labels(filter_by or [run])
    found = planted_of(_asked(run, labels, (qrels, withheld)), list(labels.values()), grid, depth)
    if plot:
        with drawing(plot):
            draw_planted(found, [plot])
    show(found, as_json, *planted_table(found["scores"]))


def _grid(given: Sequence[str]) -> dict[str, list[float]]:
    """Thresholds by filter from `denoised=0.1`."""
    from hardneg.miners.rules import RULES
    from hardneg.registry import suggestion

    grid: dict[str, list[float]] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in RULES:
            raise UsageError(f"--threshold {text}: no filter {name!r}{suggestion(name, RULES)}; {', '.join(RULES)}")
        try:
            grid.setdefault(name, []).append(float(value))
        except ValueError:
            raise UsageError(f"--threshold {text}: {value!r} is not a number; say {name}=0.5") from None
    return grid


def _asked(run: Path, scores: Mapping[Path, str], judgements: tuple[Path, Path]) -> "Iterator[Asked]":
    """The queries of the run that have known positives."""
    from hardneg.data.qrels import positives, read_qrels
    from hardneg.data.runs import EMPTY, read_run
    from hardneg.types import Candidates

    known, hidden = (positives(read_qrels(path)) for path in judgements)
    lists = {label: read_run(path) for path, label in {run: "", **scores}.items()}
    ranking = next(iter(lists.values()))
    for query_id in ranking:
        if query_id in known:
            hits = {label: each.get(query_id, EMPTY) for label, each in lists.items()}
            yield Candidates(query_id, known[query_id], hits, ()), frozenset(hidden.get(query_id, ()))
