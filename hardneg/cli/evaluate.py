"""`hardneg evaluate`: TREC runs scored with the figures of trec_eval, and their differences tested."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import measured_tables, say, say_json, stdout_console
from hardneg.cli.line_options import parameters, values
from hardneg.cli.options import JSON, keyword
from hardneg.lines.evaluate import EvaluateLine, RunsToScore
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.evaluation.metrics_json import Measured


MORE_NAMES = Annotated[list[str] | None, typer.Argument(hidden=True, metavar="NAME", autocompletion=completion.metrics)]
"""The words that stand after `--metrics`."""


def options() -> Iterator[Parameter]:
    """Those of the command: the line's, how the answer is printed."""
    for each in parameters(EvaluateLine):
        yield each
        if each.name == "metrics":
            yield each.replace(name="more_metrics", default=None, annotation=MORE_NAMES)
    per_query = typer.Option(False, "--per-query", help="Print each query's scores too.")
    yield keyword("per_query", default=per_query, annotation=bool)
    yield keyword("as_json", default=JSON, annotation=bool)


def evaluate(**args: Any) -> None:
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10 mrr@10
    """
    judging = judging_of(args)
    measured = judging.measured()
    if not args["as_json"]:
        return _print(judging.tested(measured), args["per_query"])
    for note in measured.notes:
        say(note, err=True)
    say_json(_json(judging.tested(measured) if judging.baselines else measured, args["per_query"]))


def judging_of(args: Mapping[str, Any]) -> RunsToScore:
    """What the options ask for; metrics are repeated, joined by commas, or several words after one flag."""
    from hardneg.cli.planned_work import RunOptions

    metrics = split_names(args["metrics"] or [], args["more_metrics"] or [])
    line_args = values(EvaluateLine, {**args, "metrics": metrics})
    workplace = RunOptions(args["store"], args.get("device"), settings=args["settings"] or ()).opened()
    return RunsToScore.of(EvaluateLine.checked(line_args), workplace)


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
