"""`hardneg report`: TREC runs scored, their differences tested, as pages to read."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from hardneg.api.judging import Judge, tested
from hardneg.api.labels import run_labels
from hardneg.cli.console import say
from hardneg.cli.evaluate import (
    AnswerMatch,
    DatasetName,
    JudgementsFile,
    Level,
    MetricNames,
    MoreNames,
    RunFiles,
    Significance,
    Split,
    baseline_labels,
    by_label,
    compile_note,
    metric_names,
    reading,
)
from hardneg.cli.options import OVERWRITE, SET, STORE, output
from hardneg.cli.outputs import store_outputs
from hardneg.errors import UsageError
from hardneg.evaluation.levels import LEVEL
from hardneg.outputs import Target
from hardneg.wording import counted

_FOLDER = output("The folder to write; report.* and queries.tsv in it are replaced.")
_FIRST_BASELINE = typer.Option([], "--baseline", help="Compare with this run (its file's name); else the first.")


def report(
    run: RunFiles,
    output: Path = _FOLDER,
    qrels: JudgementsFile = None,
    metrics: MetricNames = None,
    more_metrics: MoreNames = None,
    relevance_level: Level = 1,
    significance_level: Significance = LEVEL,
    baseline: list[str] = _FIRST_BASELINE,
    about: str = typer.Option("", help="The run that the page is about; else that with the highest mean."),
    title: str = typer.Option("Results", help="The page's title."),
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
    names, labels = metric_names(metrics or [], more_metrics or []), run_labels(run)
    baselines = baseline_labels(baseline, labels) or list(labels.values())[:1]
    judge = Judge(qrels, relevance_level, dataset, split, answer_match, reading("report", dataset, settings, store))
    system = {str(path): label for path, label in labels.items()}.get(about, about)
    if system and system not in labels.values():
        raise UsageError(f"about: {system} is not among the runs: {', '.join(labels.values())}")
    _write_report(output, _Page(title, names, labels, baselines, significance_level, system), judge, overwrite)


@dataclass(frozen=True)
class _Page:
    """What a page is to show: runs by the metrics, compared with the baselines; system: which of them it is about."""

    title: str
    metrics: Sequence[str]
    labels: Mapping[Path, str]
    baselines: Sequence[str]
    level: float
    system: str


def _write_report(output: Path, asked: _Page, judge: Judge, overwrite: bool) -> None:
    """Measures the runs and writes the page."""
    from hardneg.reporting.content import ReportContent
    from hardneg.reporting.page import NAMES, write_report
    from hardneg.reporting.queries import Passages

    labels, source = asked.labels, (judge.dataset or "").partition(":")[2]
    reads = [
        *labels,
        *([judge.qrels] if isinstance(judge.qrels, Path) else []),
        *([Path(source).expanduser()] if source else []),
    ]
    outputs = store_outputs("report", [Target(output, folder=True, names=NAMES)], reads, overwrite)
    outputs.check()
    measured = tested(judge.measured(asked.metrics, by_label(labels), compile_note), asked.baselines, asked.level)
    page = ReportContent.of(asked.title, measured, system=asked.system)
    judged_by = judge.qrels.name if isinstance(judge.qrels, Path) else f"split {judge.split} of {judge.dataset}"
    made: dict[str, Any] = {
        "evaluated on": f"{counted(page.queries, 'query')} of {judged_by}",
        "relevant from grade": judge.level,
        "baselines": ", ".join(asked.baselines),
    }
    passages = Passages(by_label(labels), judge.grades(), judge.collection, judge.split)
    browse = shlex.join(["browse", *labels.values(), *(["--dataset", judge.dataset] if judge.dataset else [])])
    page = replace(page, settings=made, over=made["evaluated on"], browse=f"hardneg {browse}")
    with outputs.laid_out():
        for path in write_report(output, page, measured, passages):
            say(str(path))
