"""`hardneg report`: TREC run files scored, tested and laid out as a page to read."""

from pathlib import Path
from typing import Annotated

import typer

from hardneg.cli.evaluate import (
    Level,
    MetricNames,
    MoreNames,
    QrelsFile,
    RunFiles,
    baseline_labels,
    measure,
    metric_names,
    run_labels,
    tested,
)
from hardneg.cli.options import WRITTEN
from hardneg.cli.outputs import OVERWRITE, Target, store_outputs
from hardneg.cli.printing import say
from hardneg.counting import counted


def report(
    qrels: QrelsFile,
    run: RunFiles,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The folder to write; report.* in it is replaced.", rich_help_panel=WRITTEN
        ),
    ],
    metrics: MetricNames = None,
    more_metrics: MoreNames = None,
    relevance_level: Level = 1,
    baseline: Annotated[
        list[str] | None, typer.Option("--baseline", help="Compare with this run (its file's name); else the first.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="The page's title.")] = "Results",
    overwrite: bool = OVERWRITE,
) -> None:
    """Score run files, test their differences, and write report.html and report.md.

    Example: hardneg report --qrels qrels.txt --run a.trec.gz --run b.trec.gz --output report
    """
    from hardneg.reporting.content import Report, estimates
    from hardneg.reporting.page import NAMES, write_report

    names, labels = metric_names(metrics or [], more_metrics or []), run_labels(run)
    baselines = baseline_labels(baseline or [], labels) or list(labels.values())[:1]
    outputs = store_outputs("report", [Target(output, folder=True, names=NAMES)], [qrels, *run], overwrite)
    outputs.check()
    notes: list[str] = []
    measured = tested(measure(qrels, labels, names, relevance_level, notes.append), baselines)
    queries = len(next(iter(next(iter(measured.results.values())).values())))
    page = Report(
        title=title,
        systems={label: estimates(scores) for label, scores in measured.results.items()},
        queries=queries,
        comparisons=measured.comparisons,
        settings={
            "evaluated on": f"{counted(queries, 'query')} of {qrels.name}",
            "relevant from grade": relevance_level,
            "baselines": ", ".join(baselines),
        },
        notes=notes,
    )
    with outputs.laid_out():
        for path in write_report(output, page):
            say(str(path))
