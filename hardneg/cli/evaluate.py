"""`hardneg evaluate` and `hardneg report`: TREC runs scored as trec_eval does, their differences tested; as pages."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.api.arguments import Arg
from hardneg.cli import completion
from hardneg.cli.adaptor import flag_of, parameters, shaped, shown, text_of, values
from hardneg.cli.console import measured_tables, say, say_json, stdout_console
from hardneg.cli.options import JSON, OVERWRITE, keyword, output
from hardneg.cli.planned_work import store_outputs
from hardneg.functions import evaluate as functions
from hardneg.records.errors import UsageError
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.evaluation.metrics_json import Measured


MORE_NAMES = Annotated[list[str] | None, typer.Argument(hidden=True, metavar="NAME", autocompletion=completion.metrics)]
"""The words that stand after `--metrics`."""


ARGUMENTS = shown(functions.evaluate, ("settings", "store", "device"))


def options(arguments: Mapping[str, Arg]) -> Iterator[Parameter]:
    """Those by which runs are scored; the words after `--metrics` too."""
    for each in parameters(arguments):
        yield each
        if each.name == "metrics":
            yield each.replace(name="more_metrics", default=None, annotation=MORE_NAMES)


def _options() -> Iterator[Parameter]:
    """Those of the command: the function's, and how the answer is printed."""
    yield from options(ARGUMENTS)
    per_query = typer.Option(False, "--per-query", help="Print each query's scores too.")
    yield keyword("per_query", default=per_query, annotation=bool)
    yield keyword("as_json", default=JSON, annotation=bool)


_EXAMPLE = "Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10 mrr@10"


def _evaluate(**args: Any) -> None:
    judging = judging_of(args)
    measured = judging.measured()
    if not args["as_json"]:
        return _print(judging.tested(measured), args["per_query"])
    for note in measured.notes:
        say(note, err=True)
    say_json(_json(judging.tested(measured) if judging.baselines else measured, args["per_query"]))


def judging_of(args: Mapping[str, Any]) -> functions.RunsToScore:
    """What the options ask for; metrics are repeated, joined by commas, or several words after one flag."""
    from hardneg.cli.planned_work import opened

    metrics = split_names(args["metrics"] or [], args["more_metrics"] or [])
    given = values(ARGUMENTS, {**args, "metrics": metrics})
    return functions.RunsToScore.of(opened(args["store"], args.get("device"), args["settings"]), given)


def _print(measured: "Measured", per_query: bool) -> None:
    """The tables, after each query's scores where these are wanted."""
    if per_query:
        for label, scores in measured.results.items():
            for metric, by_query in scores.items():
                for query_id, score in by_query.items():
                    say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")
    measured_tables(stdout_console(), measured)


def split_names(after_flag: Sequence[str], words: Sequence[str]) -> list[str]:
    """What stands after a flag, repeated, joined by commas, or as several words."""
    for word in words:
        if Path(word).is_file():
            raise UsageError(f"{word} is a file where a metric is expected; give --run before each run file")
    return [name for text in (*after_flag, *words) for name in text.split(",") if name]


def _json(measured: "Measured", per_query: bool) -> dict[str, Any]:
    """The means by run and metric; with the scores, or with paired tests, a mapping as in a metrics file."""
    from hardneg.evaluation.metrics_json import to_json

    content = to_json(measured)
    more = [key for key, wanted in {"comparisons": measured.comparisons, "per_query": per_query}.items() if wanted]
    notes = ["notes"] if measured.notes else []
    return {key: content[key] for key in ("metrics", *more, *notes)} if more else dict(content["metrics"])


evaluate = shaped(_evaluate, [*_options()], f"{text_of(functions.evaluate)}\n\n{_EXAMPLE}", flag_of(functions.evaluate))


_FOLDER = output("The folder to write; report.* and queries.tsv in it are replaced.")


def _report_options() -> Iterator[Parameter]:
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


def _write_report(output: Path, judging: functions.RunsToScore, title: str, system: str, overwrite: bool) -> None:
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


report = shaped(_report, [*_report_options()], text_of(_report), flag_of(functions.evaluate))
