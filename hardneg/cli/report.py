"""`hardneg report`: TREC run files scored, tested and laid out as a page to read."""

from pathlib import Path
from typing import Annotated

import typer

from hardneg.cli.answer_metrics import Judge
from hardneg.cli.evaluate import (
    AnswerMatch,
    DatasetName,
    JudgementsFile,
    Level,
    MetricNames,
    MoreNames,
    RunFiles,
    Split,
    baseline_labels,
    judged,
    metric_names,
    run_labels,
    tested,
)
from hardneg.cli.options import SET, STORE, WRITTEN
from hardneg.cli.outputs import OVERWRITE, Target, store_outputs
from hardneg.cli.printing import say
from hardneg.counting import counted


def report(
    run: RunFiles,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The folder to write; report.* and queries.tsv in it are replaced.",
            rich_help_panel=WRITTEN,
        ),
    ],
    qrels: JudgementsFile = None,
    metrics: MetricNames = None,
    more_metrics: MoreNames = None,
    relevance_level: Level = 1,
    baseline: Annotated[
        list[str] | None, typer.Option("--baseline", help="Compare with this run (its file's name); else the first.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="The page's title.")] = "Results",
    dataset: DatasetName = None,
    split: Split = "test",
    answer_match: AnswerMatch = "string",
    settings: list[str] = SET,
    store: Path | None = STORE,
    overwrite: bool = OVERWRITE,
) -> None:
    """Score run files, test their differences, and write report.html, report.md and queries.tsv.

    With --dataset the page has the texts of the queries and of the passages that were found.

    Example: hardneg report --qrels qrels.txt --run a.trec.gz --run b.trec.gz --output report
    """
    from dataclasses import replace

    from hardneg.reporting.content import ReportContent
    from hardneg.reporting.page import NAMES, write_report
    from hardneg.reporting.queries import Passages

    names, labels = metric_names(metrics or [], more_metrics or []), run_labels(run)
    baselines = baseline_labels(baseline or [], labels) or list(labels.values())[:1]
    source = (dataset or "").partition(":")[2]
    given = [*run, *([qrels] if qrels else []), *([Path(source).expanduser()] if source else [])]
    outputs = store_outputs("report", [Target(output, folder=True, names=NAMES)], given, overwrite)
    outputs.check()
    judge, notes = Judge(qrels, relevance_level, dataset, split, answer_match, settings, store), list[str]()
    collection = judge.collection("hardneg report")
    measured = tested(judged(names, labels, judge, collection, notes.append), baselines)
    page = ReportContent.of(title, measured, notes=notes)
    made = {
        "evaluated on": f"{counted(page.queries, 'query')} of {qrels.name if qrels else f'split {split} of {dataset}'}",
        "relevant from grade": relevance_level,
        "baselines": ", ".join(baselines),
    }
    passages = Passages({label: path for path, label in labels.items()}, judge.grades(collection), collection, split)
    with outputs.laid_out():
        for path in write_report(output, replace(page, settings=made), measured, passages):
            say(str(path))
