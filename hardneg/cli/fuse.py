"""`hardneg fuse`: runs of anyone's as one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from hardneg.api.labels import run_labels
from hardneg.cli import completion
from hardneg.cli.console import bars, say, tell_left_out
from hardneg.cli.evaluate import Level, RunFiles
from hardneg.cli.options import OUTPUT_RUN, OVERWRITE, TUNING
from hardneg.cli.outputs import check_run, store_outputs
from hardneg.errors import UsageError
from hardneg.outputs import Target
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.data.runs import Run
    from hardneg.fusion.methods import Fusion
    from hardneg.fusion.tuning import Development, Grid, Tried

_WEIGHT = typer.Option([], metavar="LABEL=VALUE", help="A run's weight, by its file's name; else 1.")
_MISSING = typer.Option("lowest", help="Of weighted-sum: what a document scores in a run that lacks it.")
_NORM = typer.Option(None, help="Of ranx's methods: min-max (the default), none, zmuv, ...")
_TUNE_RUN = typer.Option(
    [],
    help="A run of other queries, to choose the numbers by; one for each --run, in their order.",
    rich_help_panel=TUNING,
)
_QRELS = typer.Option(None, help="The judgements of the queries to tune on.", rich_help_panel=TUNING)
_METRIC = typer.Option("ndcg@10", help="What to tune by.", autocompletion=completion.metrics, rich_help_panel=TUNING)
_GRID = typer.Option(
    [],
    metavar="NAME=VALUE,VALUE",
    help="Values to try: of a run's weight, of `constant` or of `parameter`; else all weights in tenths.",
    rich_help_panel=TUNING,
)


def fuse(
    run: RunFiles,
    output: Path = OUTPUT_RUN,
    method: str = typer.Option("weighted-sum", help="zip, weighted-sum, reciprocal-rank, or one of ranx's."),
    weight: list[str] = _WEIGHT,
    missing_scores: Literal["lowest", "zero"] = _MISSING,
    constant: int = typer.Option(60, min=0, help="Of reciprocal-rank."),
    norm: str | None = _NORM,
    parameter: float | None = typer.Option(None, help="Of gmnz, logn_isr, rbc, rrf."),
    depth: int = typer.Option(100, min=1, help="How many documents for each query."),
    tune_run: list[Path] = _TUNE_RUN,
    qrels: Path | None = _QRELS,
    metric: str = _METRIC,
    relevance_level: Level = 1,
    grid: list[str] = _GRID,
    overwrite: bool = OVERWRITE,
) -> None:
    """Make one run of several: by sums of scores or ranks, by turns, the first run first (zip), or as ranx does it.

    Example: hardneg fuse --run cort.trec.gz --run bm25.trec.gz --method zip --depth 1000 --output cort-bm25.trec.gz
    """
    from hardneg.api.fusing import check_fusion, check_several, development, weights_of
    from hardneg.data.runs import read_run
    from hardneg.fusion.methods import Fusion

    check_several(run)
    labels = list(run_labels(run).values())
    check_run(output)
    outputs = store_outputs("fuse", [Target(output)], [*run, *tune_run, *([qrels] if qrels else [])], overwrite)
    outputs.check()
    named: Any = norm
    asked = Fusion(method, weights_of(_weights(weight), labels), missing_scores, constant, named, parameter, depth)
    values = _grid(grid)
    check_fusion(asked, tuned="parameter" in values)
    runs = [read_run(path) for path in run]
    query_ids = list(dict.fromkeys(query_id for each in runs for query_id in each))
    if tune_run:
        asked = _tuned(asked, development(labels, tune_run, qrels, metric, relevance_level), values, query_ids)
    elif values or qrels:
        raise UsageError("fuse: --grid and --qrels are for tuning: give a --tune-run for each --run")
    with outputs.laid_out():
        _write(output, asked, dict(zip(labels, runs, strict=True)), query_ids)


def _write(output: Path, asked: "Fusion", runs: Mapping[str, "Run"], query_ids: Sequence[str]) -> None:
    """Writes the fused run of all queries that any run has, and tells which lack some."""
    from hardneg.api.fusing import write_fused

    count = write_fused(output, asked, runs, query_ids)
    say(f"{output}: {counted(len(query_ids), 'query')}, {counted(count, 'document')}")
    lacking = {label: len(query_ids) - len(run) for label, run in runs.items()}
    tell_left_out({f"queries that {label} lacks": number for label, number in lacking.items()})


def _weights(given: Sequence[str]) -> dict[str, float]:
    return {label: _number(value, text) for text in given for label, _, value in [text.rpartition("=")]}


def _grid(given: Sequence[str]) -> "Grid":
    pairs = [(text, *text.rpartition("=")[::2]) for text in given]
    return {name: [_number(value, text) for value in values.split(",")] for text, name, values in pairs}


def _number(value: str, text: str) -> float:
    """A number, or a line on the option that it stands in."""
    from math import isfinite

    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if "=" not in text or not isfinite(number):
        raise UsageError(f"{text}: must be a name, =, and numbers")
    return number


def _tuned(asked: "Fusion", known: "Development", values: "Grid", query_ids: Sequence[str]) -> "Fusion":
    """The best on the development queries; says which it is."""
    from hardneg.api.fusing import best_fusion

    found = best_fusion(asked, known, values, query_ids, bars())
    say(f"tuned: {known.metric} {found[0].worth:.4f}, best of {len(found)}: {_shown(found[0], known.labels)}")
    return found[0].fusion


def _shown(best: "Tried", labels: Sequence[str]) -> str:
    from hardneg.fusion.tuning import numbers

    chosen = dict(numbers(best.fusion, labels))
    weights = chosen.pop("weights", {})
    return ", ".join(f"{name} {value:g}" for name, value in {**weights, **chosen}.items())
