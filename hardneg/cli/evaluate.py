"""`hardneg evaluate` and `hardneg report`: TREC runs scored as trec_eval does, their differences tested; as pages."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli.adaptor import flag_of, parameters, shaped, shown, text_of, values
from hardneg.cli.console import measured_tables, say, say_json, stdout_console
from hardneg.cli.options import JSON, OVERWRITE, keyword, output
from hardneg.cli.planned_work import opened, store_outputs
from hardneg.functions import evaluate as functions
from hardneg.records import UsageError, counted
from hardneg.store import Target

if TYPE_CHECKING:
    from hardneg.evaluation.metrics_json import Measured


ARGUMENTS = shown(functions.evaluate, ("settings", "store", "device"))
_EXAMPLE = "Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10,mrr@10"


def _evaluate(**args: Any) -> None:
    judging = judging_of(args)
    measured = judging.measured()
    tested = judging.tested(measured) if judging.baselines or not args["as_json"] else measured
    if args["as_json"]:
        for note in measured.notes:
            say(note, err=True)
        return say_json(_json(tested, args["per_query"]))
    rows = tested.results.items() if args["per_query"] else ()
    for label, metric, by_query in ((label, *each) for label, scores in rows for each in scores.items()):
        for query_id, score in by_query.items():
            say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")
    measured_tables(stdout_console(), tested)


def judging_of(args: Mapping[str, Any]) -> functions.RunsToScore:
    """What the options ask for."""
    given = values(ARGUMENTS, {**args, "metrics": metric_names(args["metrics"] or [])})
    return functions.RunsToScore.of(opened(args["store"], args.get("device"), args["settings"]), given)


def metric_names(texts: Sequence[str]) -> list[str]:
    """Metrics that are repeated, or joined by commas."""
    return [name for text in texts for name in text.split(",") if name]


def _json(measured: "Measured", per_query: bool) -> dict[str, Any]:
    """The means by run and metric; with the scores, or with paired tests, a mapping as in a metrics file."""
    from hardneg.evaluation.metrics_json import to_json

    content = to_json(measured)
    more = [key for key, wanted in {"comparisons": measured.comparisons, "per_query": per_query}.items() if wanted]
    notes = ["notes"] if measured.notes else []
    return {key: content[key] for key in ("metrics", *more, *notes)} if more else dict(content["metrics"])


_PER_QUERY = typer.Option(False, "--per-query", help="Print each query's scores too.")
_OPTIONS = [
    *parameters(ARGUMENTS),
    keyword("per_query", default=_PER_QUERY, annotation=bool),
    keyword("as_json", default=JSON, annotation=bool),
]
evaluate = shaped(_evaluate, _OPTIONS, f"{text_of(functions.evaluate)}\n\n{_EXAMPLE}", flag_of(functions.evaluate))


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
    from hardneg.report.content import ReportContent
    from hardneg.report.page import NAMES, write_report
    from hardneg.report.query_section import Passages

    file, runs = judging.qrels if isinstance(judging.qrels, Path) else None, judging.files
    source = (judging.dataset or "").partition(":")[2]
    reads = [*runs.values(), *([file] if file else []), *([Path(source).expanduser()] if source else [])]
    target = Target(args["output"], folder=True, names=NAMES)
    outputs = store_outputs("report", [target], reads, args["overwrite"])
    outputs.check()
    measured = judging.tested(judging.measured())
    page = ReportContent.of(args["title"], measured, system=system)
    judged_by = file.name if file else f"split {judging.split} of {judging.dataset}"
    settings: dict[str, Any] = {
        "evaluated on": f"{counted(page.queries, 'query')} of {judged_by}",
        "relevant from grade": judging.fields["relevance_level"],
        "baselines": ", ".join(judging.baselines),
    }
    passages = Passages(runs, judging.grades(), judging.collection, judging.split)
    browse = shlex.join(["hardneg", "browse", *runs, *(["--dataset", judging.dataset] if judging.dataset else [])])
    page = replace(page, settings=settings, over=settings["evaluated on"], browse=browse)
    with outputs.laid_out():
        for path in write_report(args["output"], page, measured, passages):
            say(str(path))


_FIRST = {"baselines": replace(ARGUMENTS["baselines"], help="Compare with this run (its file's name); else the first.")}
_ABOUT = typer.Option("", "--about", help="The run that the page is about; default: that with the highest mean.")
_TITLE = typer.Option("Results", "--title", help="The page's title.")
_REPORT_OPTIONS = [
    *parameters({name: each for name, each in {**ARGUMENTS, **_FIRST}.items() if name != "device"}),
    keyword(
        "output", default=output("The folder to write; report.* and queries.tsv in it are replaced."), annotation=Path
    ),
    keyword("about", default=_ABOUT, annotation=str),
    keyword("title", default=_TITLE, annotation=str),
    keyword("overwrite", default=OVERWRITE, annotation=bool),
]
report = shaped(_report, _REPORT_OPTIONS, text_of(_report), flag_of(functions.evaluate))
