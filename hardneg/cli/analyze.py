"""`hardneg analyze`: what lies behind the metrics, from plain files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli.evaluate import Level, QrelsFile, run_labels
from hardneg.cli.stores import STORE, open_store
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.analysis.pairwise_errors import PairwiseErrors
    from hardneg.artifacts import Artifact

app = typer.Typer(
    help="What lies behind the metrics: pairwise errors, drift of negatives, a projection, costs.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="PATH", help="Draw a figure: .png, .svg or .pdf.")]
Topics = Annotated[
    Path | None, typer.Option("--queries", help="Queries: BEIR's queries.jsonl, id and text by tab, or TREC topics.")
]
DEVICE = typer.Option(None, help="cpu, cuda, cuda:1, mps; default: the best there is.")


@app.command()
def errors(
    qrels: QrelsFile,
    index: Annotated[
        Path | None, typer.Option("--index", help="A flat index folder; needs --queries, --model.")
    ] = None,
    queries: Topics = None,
    model: Annotated[str | None, typer.Option("--model", help="The model that encodes the queries.")] = None,
    run: Annotated[list[Path] | None, typer.Option("--run", help="A TREC run: its top-K errors.")] = None,
    cut: Annotated[int, typer.Option(min=1, help="K: how many negatives the top-K errors look at.")] = 200,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
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
    _check_plot(plot)
    known = positives(read_qrels(qrels), relevance_level)
    found: dict[str, PairwiseErrors] = {}
    if index and queries and model:
        found[index.name or str(index)] = _of_index(index, queries, model, (known, cut), device)
    found |= _of_runs(run or [], known, cut)
    if plot:
        draw_errors({label: distribution_of(each) for label, each in found.items()}, [plot])
    tables = {label: to_json(each) for label, each in found.items()}
    _show(tables, as_json, _ERRORS, _error_rows(tables))


def _of_index(
    index: Path, queries: Path, model: str, wanted: tuple[Mapping[str, Sequence[str]], int], device: str | None
) -> "PairwiseErrors":
    from hardneg.analysis.files import System, read_topics, system_errors
    from hardneg.cli.console import Bars, stderr_console

    topics, (known, cut) = read_topics(queries), wanted
    system = System.open(index, model, device)
    return system_errors(system, topics, known, cut, Bars(stderr_console()))


def _of_runs(runs: Sequence[Path], known: Mapping[str, Sequence[str]], cut: int) -> "dict[str, PairwiseErrors]":
    from hardneg.analysis.run_errors import errors_in_run
    from hardneg.data.runs import read_run

    found = {}
    for path, label in run_labels(runs).items():
        read = read_run(path)
        found[label] = errors_in_run(zip(read.query_ids, read.doc_ids, strict=True), known, cut)
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


@app.command()
def drift(
    histories: Annotated[list[Path], typer.Argument(metavar="HISTORY...", help="history.jsonl files of trainings.")],
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show how fixed negatives age while a model learns: overlap with the real hard ones, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """
    from hardneg.analysis.drift_curves import drift_curves
    from hardneg.analysis.figures.drift import draw_drift
    from hardneg.data.json_rows import json_row
    from hardneg.data.lines import read_lines

    _check_plot(plot)
    curves = {
        label: drift_curves(json_row(path, number, line) for number, line in read_lines(path))
        for path, label in run_labels(histories).items()
    }
    for path, label in run_labels(histories).items():
        if not curves[label]:
            raise UsageError(f"{path}: holds no `drift`; train with `watch`")
    if plot:
        draw_drift(curves, [plot])
    rows = [
        [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
        for label, measured in curves.items()
        for name, curve in measured.items()
    ]
    _show(curves, as_json, ("history", "measured", "first", "last", "at step"), rows)


@app.command()
def projection(
    query: Annotated[str, typer.Option("--query", help="The id of the query to show.")],
    qrels: QrelsFile,
    queries: Topics,
    index: Annotated[list[Path], typer.Option("--index", help="A flat index folder, before; a second one, after.")],
    model: Annotated[list[str], typer.Option("--model", help="The model of the queries, before; a second one, after.")],
    negatives: Annotated[int, typer.Option(min=1, help="How many, those ranked highest before.")] = 100,
    seed: Annotated[int, typer.Option(help="Of t-SNE.")] = 42,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    device: str | None = DEVICE,
) -> None:
    """Project a query, its positives and its negatives to two dimensions, before and after training.

    One --index with two --model shows a query-side training: the documents stay.

    Example: hardneg analyze projection --query ID --qrels Q --queries FILE --index FOLDER --model A --model B
    """
    from hardneg.analysis.figures.projection import draw_projection
    from hardneg.analysis.files import System, neighbourhoods, read_topics
    from hardneg.analysis.projection import project
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.qrels import positives, read_qrels

    if len(model) != 2 or len(index) not in (1, 2):
        raise UsageError("analyze projection: give --model twice, before and after, and --index once or twice")
    _check_plot(plot)
    text = read_topics(queries).get(query) if queries else None
    known = positives(read_qrels(qrels), relevance_level).get(query, [])
    if text is None or not known:
        lacking = f"{queries} has no such query" if text is None else f"{qrels} has no positive for it"
        raise UsageError(f"query {query}: {lacking}; name another")
    systems = [System.open(folder, name, device) for folder, name in zip([*index, index[0]], model, strict=False)]
    sides, ids = neighbourhoods(systems, text, known, negatives, Bars(stderr_console()))
    panels = dict(zip(("before", "after"), project(sides[0], sides[1], seed), strict=True))
    if plot:
        draw_projection(panels, [plot])
    rows = [
        [name, *(f"{x:.2f}" for x in panel.query), str(len(panel.positives)), str(len(panel.negatives))]
        for name, panel in panels.items()
    ]
    points = {name: panel.to_json() for name, panel in panels.items()}
    content = {"query_id": query, "text": text, "negatives": ids, "points": points}
    _show(content, as_json, ("panel", "query x", "query y", "positives", "negatives"), rows)


@app.command()
def costs(
    folder: Annotated[Path, typer.Argument(metavar="RUN_FOLDER", help="The folder of a finished recipe.")],
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="NAME=STAGE[,STAGE]", help="Stages summed; default: each that trains."),
    ] = None,
    as_json: AsJson = False,
    plot: Plot = None,
    store: Path | None = STORE,
) -> None:
    """Show what training took: time, steps, device, memory, and how many times faster than the first method.

    Example: hardneg analyze costs runs/star-passage --method STAR=star --method both=star,adore
    """
    from dataclasses import asdict

    from hardneg.analysis.costs import costs as costs_of
    from hardneg.analysis.figures.costs import draw_costs
    from hardneg.recipe.run_folder import artifacts_of

    _check_plot(plot)
    found = costs_of(_methods(method or [], artifacts_of(folder, open_store(store))))
    if plot:
        draw_costs(found, [plot])
    rows = [
        [
            row.method,
            f"{row.seconds:,.1f}" + (f" without {', '.join(row.unknown)}" if row.unknown else ""),
            f"{row.steps:,}",
            ", ".join(row.devices) or "unknown",
            *("unknown" if size is None else f"{size / 1e9:.2f}" for size in (row.peak_memory, row.peak_gpu_memory)),
            f"{row.speedup:.3g}×" if row.speedup else "–",
        ]
        for row in found
    ]
    columns = ("method", "seconds", "steps", "device", "peak GB", "peak GPU GB", "speed")
    _show([asdict(row) for row in found], as_json, columns, rows)


def _methods(given: Sequence[str], artifacts: "Mapping[str, Artifact]") -> dict[str, dict[str, dict[str, Any]]]:
    from hardneg.analysis.costs import facts_of
    from hardneg.registry import suggestion

    trained = [name for name, artifact in artifacts.items() if artifact.kind == "model"]
    methods: dict[str, dict[str, dict[str, Any]]] = {}
    for text in given or [f"{name}={name}" for name in trained]:
        label, equals, stages = text.partition("=")
        if not (label and equals and stages):
            raise UsageError(f"--method {text}: must be of the form NAME=STAGE or NAME=STAGE,STAGE")
        for name in stages.split(","):
            if name not in artifacts:
                hint = suggestion(name, artifacts)
                raise UsageError(f"--method {text}: no stage {name!r}{hint}; there are: {', '.join(artifacts)}")
            methods.setdefault(label, {})[name] = facts_of(artifacts[name].facts)
    return methods


def _check_plot(plot: Path | None) -> None:
    """Refuses a bad name before any work."""
    if plot:
        from hardneg.analysis.figures.canvas import check_forms

        check_forms([plot])


def _show(content: Any, as_json: bool, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints JSON, or a table."""
    if as_json:
        typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)
