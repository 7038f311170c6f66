"""`hardneg evaluate` and `hardneg report`: TREC runs scored as trec_eval does, their differences tested; as pages."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from hardneg.cli import adaptor
from hardneg.cli.adaptor import keyword
from hardneg.cli.console import measured_tables, say, say_json, stdout_console
from hardneg.cli.planned_work import opened, store_outputs
from hardneg.functions.evaluate import RunsToScore, evaluate as scored
from hardneg.records import errors, wording
from hardneg.store import Target

ARGUMENTS = adaptor.shown(scored, ("settings", "store", "device"))
_EXAMPLE = "Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10,mrr@10"


def _evaluate(**args: Any) -> None:
    judging = _judging_of(args)
    measured = judging.measured()
    tested = judging.tested(measured) if judging.baselines or not args["as_json"] else measured
    if args["as_json"]:
        from hardneg.evaluation.metrics_json import to_json

        for note in measured.notes:
            say(note, err=True)
        content, wanted = to_json(tested), {"comparisons": tested.comparisons, "per_query": args["per_query"]}
        more = [key for key, asked in wanted.items() if asked]
        notes = ["notes"] if tested.notes else []  # the means alone, or a mapping as in a metrics file
        return say_json({key: content[key] for key in ("metrics", *more, *notes)} if more else content["metrics"])
    for label, scores in tested.results.items() if args["per_query"] else ():
        for metric, by_query in scores.items():
            for query_id, score in by_query.items():
                say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")
    measured_tables(stdout_console(), tested)


def _judging_of(args: Mapping[str, Any]) -> RunsToScore:
    given = adaptor.values(ARGUMENTS, {**args, "metrics": metric_names(args["metrics"] or [])})
    return RunsToScore.of(opened(args["store"], args.get("device"), args["settings"]), given)


def metric_names(texts: Sequence[str]) -> list[str]:
    """Metrics that are repeated, or joined by commas."""
    return [name for text in texts for name in text.split(",") if name]


_PER_QUERY = typer.Option(False, "--per-query", help="Print each query's scores too.")
_OPTIONS = [
    *adaptor.parameters(ARGUMENTS),
    keyword("per_query", default=_PER_QUERY, annotation=bool),
    keyword("as_json", default=adaptor.JSON, annotation=bool),
]
_called = adaptor.flag_of(scored)
evaluate = adaptor.shaped(_evaluate, _OPTIONS, f"{adaptor.text_of(scored)}\n\n{_EXAMPLE}", _called)


def _report(**args: Any) -> None:
    """Score run files, test their differences, and write report.html, report.md and queries.tsv.

    With --dataset the page shows the texts of queries and of retrieved passages.

    Example: hardneg report --qrels qrels.txt --run a.trec.gz --run b.trec.gz --output report
    """
    judging = _judging_of(args)
    runs, dataset = judging.files, judging.dataset
    judging = replace(judging, baselines=judging.baselines or [*runs][:1])
    system = {str(path): label for label, path in runs.items()}.get(args["about"], args["about"])
    if system and system not in runs:
        raise errors.UsageError(f"about: {system} is not among the runs: {', '.join(runs)}")
    from hardneg.report.content import ReportContent
    from hardneg.report.page import NAMES, write_report
    from hardneg.report.query_section import Passages

    file, source = judging.qrels if isinstance(judging.qrels, Path) else None, (dataset or "").partition(":")[2]
    reads = [*runs.values(), *([file] if file else []), *([Path(source).expanduser()] if source else [])]
    outputs = store_outputs("report", [Target(args["output"], folder=True, names=NAMES)], reads, args["overwrite"])
    outputs.check()
    measured = judging.tested(judging.measured())
    page = ReportContent.of(args["title"], measured, system=system)
    judged_by = file.name if file else f"split {judging.split} of {dataset}"
    settings: dict[str, Any] = {
        "evaluated on": f"{wording.counted(page.queries, 'query')} of {judged_by}",
        "relevant from grade": judging.fields["relevance_level"],
        "baselines": ", ".join(judging.baselines),
    }
    passages = Passages(runs, judging.grades(), judging.collection, judging.split)
    browse = shlex.join(["hardneg", "browse", *runs, *(["--dataset", dataset] if dataset else [])])
    page = replace(page, settings=settings, over=settings["evaluated on"], browse=browse)
    with outputs.laid_out():
        for path in write_report(args["output"], page, measured, passages):
            say(str(path))


_FIRST = replace(ARGUMENTS["baselines"], help="Compare with this run (its file's name); else the first.")
_ABOUT = typer.Option("", "--about", help="The run that the page is about; default: that with the highest mean.")
_TITLE = typer.Option("Results", "--title", help="The page's title.")
_OUTPUT = adaptor.output("The folder to write; report.* and queries.tsv in it are replaced.")
_REPORT_OPTIONS = [
    *adaptor.parameters({name: each for name, each in {**ARGUMENTS, "baselines": _FIRST}.items() if name != "device"}),
    keyword("output", default=_OUTPUT, annotation=Path),
    keyword("about", default=_ABOUT, annotation=str),
    keyword("title", default=_TITLE, annotation=str),
    keyword("overwrite", default=adaptor.OVERWRITE, annotation=bool),
]
report = adaptor.shaped(_report, _REPORT_OPTIONS, adaptor.text_of(_report), _called)
