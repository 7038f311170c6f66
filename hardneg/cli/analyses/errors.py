"""`hardneg analyze errors`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, Topics, check_plot, drawing, show
from hardneg.cli.evaluate import Level, QrelsFile, run_labels
from hardneg.cli.options import DEVICE
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.analysis.pairwise_errors import PairwiseErrors


def errors(
    qrels: QrelsFile,
    index: Annotated[
        Path | None, typer.Option("--index", help="A dense index folder; needs --queries, --model.")
    ] = None,
    queries: Topics = None,
    model: Annotated[str | None, typer.Option("--model", help="The model that encodes the queries.")] = None,
    run: Annotated[list[Path] | None, typer.Option("--run", help="A TREC run: its top-K errors.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="K: how many negatives the top-K errors look at.")] = 200,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
    device: str | None = DEVICE,
) -> None:
    """Count the negatives above each positive: in the whole corpus (an index), and within the top K.

    Example: hardneg analyze errors --qrels qrels.txt --index FOLDER --queries queries.jsonl --model NAME
    """
    from hardneg.analysis.error_table import distribution_of, to_json
    from hardneg.analysis.figures.errors import draw_errors
    from hardneg.data.qrels import positives, read_qrels

    if not (index or run):
        raise UsageError("analyze errors: give --index (with --queries and --model), or --run, or both")
    if index and not (queries and model):
        raise UsageError("analyze errors: --index needs --queries and --model, which encodes them")
    check_plot(plot, overwrite, qrels, index, queries, run)
    known = positives(read_qrels(qrels), relevance_level)
    found: dict[str, PairwiseErrors] = {}
    if index and queries and model:
        found[index.name or str(index)] = _of_index(index, queries, model, (known, depth), device)
    found |= _of_runs(run or [], known, depth)
    if plot:
        with drawing(plot):
            draw_errors({label: distribution_of(each) for label, each in found.items()}, [plot])
    tables = {label: to_json(each) for label, each in found.items()}
    show(tables, as_json, _ERRORS, _error_rows(tables))


def _of_index(
    index: Path, queries: Path, model: str, wanted: tuple[Mapping[str, Sequence[str]], int], device: str | None
) -> "PairwiseErrors":
    from hardneg.analysis.files import System, system_errors
    from hardneg.analysis.texts import read_topics
    from hardneg.cli.console import Bars, stderr_console

    topics, (known, cut) = read_topics(queries), wanted
    system = System.open(index, model, device)
    return system_errors(system, topics, known, cut, Bars(stderr_console()))


def _of_runs(runs: Sequence[Path], known: Mapping[str, Sequence[str]], cut: int) -> "dict[str, PairwiseErrors]":
    from hardneg.analysis.run_errors import errors_in_run
    from hardneg.data.runs import read_run

    found = {}
    for path, label in run_labels(runs).items():
        lists = ((query_id, ranked.doc_ids) for query_id, ranked in read_run(path).items())
        found[label] = errors_in_run(lists, known, cut)
    return found


_ERRORS = ("system", "total errors", "top-K errors", "queries", "lower bound for", "left out")


def _error_rows(tables: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            label,
            "unknown" if table["total_errors"] is None else f"{table['total_errors']:,.2f}",
            f"{table['top_errors']:,.2f}",
            f"{table['queries']:,}",
            f"{table['at_least']:,} positives" if table["at_least"] else "–",
            "; ".join(f"{count:,} {reason}" for reason, count in table["left_out"].items()) or "–",
        ]
        for label, table in tables.items()
    ]
