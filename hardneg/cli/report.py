"""`hardneg report`: TREC runs scored, their differences tested, as pages to read."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import Any

import typer

from hardneg.cli.adaptor import flag_of, shaped, text_of
from hardneg.cli.console import say
from hardneg.cli.evaluate import ARGUMENTS, judging_of, options
from hardneg.cli.options import OVERWRITE, keyword, output
from hardneg.cli.outputs import store_outputs
from hardneg.functions.evaluate import RunsToScore, evaluate
from hardneg.records.errors import UsageError
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

_FOLDER = output("The folder to write; report.* and queries.tsv in it are replaced.")


def _options() -> Iterator[Parameter]:
    """Those of the command: how `evaluate` scores, and what is on the page."""
    first = replace(ARGUMENTS["baselines"], help="Compare with this run (its file's name); else the first.")
    yield from options(
        {
            name: first if each is ARGUMENTS["baselines"] else each
            for name, each in ARGUMENTS.items()
            if name != "device"
        }
    )
    about = typer.Option("", "--about", help="The run that the page is about; default: that with the highest mean.")
    title = typer.Option("Results", "--title", help="The page's title.")
    own = {"output": (_FOLDER, Path), "about": (about, str), "title": (title, str), "overwrite": (OVERWRITE, bool)}
    for name, (default, form) in own.items():
        yield keyword(name, default=default, annotation=form)


def _report(**args: Any) -> None:
    """Score run files, test their differences, and write report.html, report.md and queries.tsv.

    With --dataset the page shows the texts of queries and of retrieved passages.

    Example: hardneg report --qrels qrels.txt --run a.trec.gz --run b.trec.gz --output report
    """
    judging = judging_of(args)
    labels = [*judging.files]
    judging = replace(judging, baselines=judging.baselines or labels[:1])
    system = {str(path): label for label, path in judging.files.items()}.get(args["about"], args["about"])
    if system and system not in labels:
        raise UsageError(f"about: {system} is not among the runs: {', '.join(labels)}")
    _write_report(args["output"], judging, args["title"], system, args["overwrite"])


def _write_report(output: Path, judging: RunsToScore, title: str, system: str, overwrite: bool) -> None:
    """Measures the runs and writes the page, which is about the run `system`."""
    from hardneg.report.content import ReportContent
    from hardneg.report.page import NAMES, write_report
    from hardneg.report.query_section import Passages

    judge, runs = judging.judge, judging.files
    source = (judge.dataset or "").partition(":")[2]
    reads = [*runs.values(), *([judge.qrels] if isinstance(judge.qrels, Path) else [])]
    reads += [Path(source).expanduser()] if source else []
    outputs = store_outputs("report", [Target(output, folder=True, names=NAMES)], reads, overwrite)
    outputs.check()
    measured = judging.tested(judging.measured())
    page = ReportContent.of(title, measured, system=system)
    judged_by = judge.qrels.name if isinstance(judge.qrels, Path) else f"split {judge.split} of {judge.dataset}"
    settings: dict[str, Any] = {
        "evaluated on": f"{counted(page.queries, 'query')} of {judged_by}",
        "relevant from grade": judge.level,
        "baselines": ", ".join(judging.baselines),
    }
    passages = Passages(runs, judge.grades(), judge.collection, judge.split)
    browse = shlex.join(["browse", *runs, *(["--dataset", judge.dataset] if judge.dataset else [])])
    page = replace(page, settings=settings, over=settings["evaluated on"], browse=f"hardneg {browse}")
    with outputs.laid_out():
        for path in write_report(output, page, measured, passages):
            say(str(path))


report = shaped(_report, [*_options()], text_of(_report), flag_of(evaluate))
