"""`hardneg evaluate`: TREC runs scored with the figures of trec_eval, and their differences tested."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.judging import Judge, tested
from hardneg.api.labels import METRICS, known_baselines, known_metrics, run_labels
from hardneg.cli import completion, mteb
from hardneg.cli.adhoc_recipe import stored_dataset
from hardneg.cli.console import measured_tables, say, say_json, stdout_console
from hardneg.cli.options import DEVICE, JSON, SET, STORE
from hardneg.errors import UsageError
from hardneg.evaluation.levels import LEVEL

if TYPE_CHECKING:
    from hardneg.data.collection import StoredCollection
    from hardneg.evaluation.metrics_json import Measured

_COMPILE_NOTE_SECONDS = 3.0

QrelsFile = Annotated[Path, typer.Option("--qrels", help="Judgements: TREC or BEIR form, plain or gzip.")]
RunFiles = Annotated[list[Path], typer.Option("--run", help="A TREC run, plain or gzip; give --run for each.")]
OptionalRunFiles = Annotated[list[Path] | None, *RunFiles.__metadata__]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        "--metric",
        metavar="NAME...",
        help=f"One or several; if none, {' '.join(METRICS)}.",
        autocompletion=completion.metrics,
    ),
]
MoreNames = Annotated[list[str] | None, typer.Argument(hidden=True, metavar="NAME", autocompletion=completion.metrics)]
Level = Annotated[
    int, typer.Option(min=1, help="The lowest grade that binary metrics take as relevant (trec_eval -l).")
]
Significance = Annotated[
    float, typer.Option("--significance-level", help="A difference is marked where both corrected p are below this.")
]

JudgementsFile = Annotated[
    Path | None, typer.Option("--qrels", help="Judgements: TREC or BEIR form, plain or gzip; else the dataset's.")
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="For answer@k, and a report's texts: beir:FOLDER, dpr:FOLDER, or a plugin's name.",
        autocompletion=completion.plugins("datasets"),
    ),
]
Split = Annotated[str, typer.Option("--split", help="The dataset's split.")]
AnswerMatch = Annotated[Literal["string", "regex"], typer.Option(help="Answers are words, or regular expressions.")]
_BASELINE = typer.Option([], help="Compare with this run only (its file's name); else each with each.")


def evaluate(
    run: OptionalRunFiles = None,
    qrels: JudgementsFile = None,
    metrics: MetricNames = None,
    more_metrics: MoreNames = None,
    relevance_level: Level = 1,
    significance_level: Significance = LEVEL,
    baseline: list[str] = _BASELINE,
    per_query: bool = typer.Option(False, "--per-query", help="Print each query's scores too."),
    as_json: bool = JSON,
    dataset: DatasetName = None,
    split: Split = "test",
    answer_match: AnswerMatch = "string",
    settings: list[str] = SET,
    store: Path | None = STORE,
    tasks: mteb.Tasks = None,
    model: mteb.Models = None,
    backend: mteb.Backend = None,
    option: mteb.BackendOptions = None,
    predictions: mteb.Predictions = None,
    output: mteb.Output = None,
    device: str | None = DEVICE,
) -> None:
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.
    answer@k is the share of questions with an answer in the top k, over the questions of a dataset that have answers.

    With --mteb, models are evaluated on mteb's retrieval tasks, and compared the same way.

    Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10 mrr@10

    Example: hardneg evaluate --mteb SciFact NFCorpus --model FOLDER --baseline bm25 --output results
    """
    wanted = _Wanted(metrics or [], more_metrics or [], baseline, significance_level, per_query, as_json)
    judge = Judge(qrels, relevance_level, dataset, split, answer_match, reading("evaluate", dataset, settings, store))
    if not tasks:
        return _evaluate_runs(run or [], judge, wanted)
    given = mteb.Given(tasks, model or [], predictions or [], backend, option or [])
    _evaluate_tasks(given, mteb.KeptAt(output, store, settings, device), run or [], judge, wanted)


@dataclass(frozen=True)
class _Wanted:
    """What is to be measured and shown; words: those that stand after a flag. level: of significance."""

    metrics: Sequence[str]
    words: Sequence[str]
    baselines: Sequence[str]
    level: float
    per_query: bool
    as_json: bool

    def print(self, measured: "Measured") -> None:
        """The tables, after each query's scores where these are wanted."""
        if self.per_query:
            _print_queries(measured)
        measured_tables(stdout_console(), measured)


def _evaluate_runs(run: Sequence[Path], judge: Judge, wanted: _Wanted) -> None:
    if not run:
        raise UsageError("evaluate: give --run FILE for each run, or --mteb TASK and --model NAME")
    names = metric_names(wanted.metrics, wanted.words)
    labels = run_labels(run)
    baselines = baseline_labels(wanted.baselines, labels)
    measured = judge.measured(names, by_label(labels), compile_note)
    if wanted.as_json:
        for note in measured.notes:
            say(note, err=True)
        say_json(_json(tested(measured, baselines, wanted.level) if baselines else measured, wanted.per_query))
        return
    wanted.print(tested(measured, baselines, wanted.level))


def _evaluate_tasks(given: mteb.Given, at: mteb.KeptAt, run: Sequence[Path], judge: Judge, wanted: _Wanted) -> None:
    """Prints the table of each task as soon as it is measured; as JSON all together."""
    others = {"--run": run, "--qrels": judge.qrels, "--dataset": judge.dataset}
    if refused := [name for name, value in others.items() if value]:
        raise UsageError(f"evaluate --mteb: a task has its own queries and judgements; leave out {', '.join(refused)}")
    tasks, metrics = _tasks_and_metrics(given.tasks, wanted.words)
    on_tasks = mteb.OnTasks(replace(given, tasks=tasks), at, judge.level, judge.split, wanted.level)
    found = on_tasks.measured(metric_names(wanted.metrics, metrics), wanted.baselines)
    if wanted.as_json:
        say_json({place: _json(measured, wanted.per_query) for place, measured in found})
        return
    for place, measured in found:
        say(place)
        wanted.print(measured)


def _tasks_and_metrics(tasks: Sequence[str], words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tasks, with those among the words that stand after a flag, and the metrics among these."""
    from hardneg.evaluation.metrics import is_metric

    metrics = [word for word in words if all(is_metric(name) for name in word.split(","))]
    return [*tasks, *(word for word in words if word not in metrics)], metrics


def reading(
    command: str, dataset: str | None, settings: Sequence[str], store: Path | None
) -> "Callable[[], StoredCollection]":
    """Reads the dataset that a command names, unless it is in the store."""

    def read() -> "StoredCollection":
        from hardneg.data.collection import StoredCollection

        return StoredCollection.open(stored_dataset(AdhocRecipe(command, str(dataset), settings=settings), store).path)

    return read


@contextmanager
def compile_note() -> Iterator[None]:
    """Says on stderr why nothing seems to happen, if it takes long."""
    from threading import Timer

    note = "still starting ranx, which is compiled at its first use on a machine and quick after that"
    timer = Timer(_COMPILE_NOTE_SECONDS, say, [note], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def metric_names(after_flag: Sequence[str], words: Sequence[str]) -> list[str]:
    """Metric names: repeated, joined by commas, or several words after one flag (which are arguments)."""
    return known_metrics(split_names(after_flag, words))


def split_names(after_flag: Sequence[str], words: Sequence[str]) -> list[str]:
    """What stands after a flag, repeated, joined by commas, or as several words."""
    for word in words:
        if Path(word).is_file():
            raise UsageError(f"{word} is a file where a metric is expected; give --run before each run file")
    return [name for text in (*after_flag, *words) for name in text.split(",") if name]


def baseline_labels(names: Sequence[str], labels: Mapping[Path, str]) -> list[str]:
    """The labels of the runs to compare with, which may be named by label or by path."""
    return known_baselines(names, {str(path): label for path, label in labels.items()})


def by_label(labels: Mapping[Path, str]) -> dict[str, Path]:
    return {label: path for path, label in labels.items()}


def _json(measured: "Measured", per_query: bool) -> dict[str, Any]:
    """The means by run and metric; with the scores, or with paired tests, a mapping as in a metrics file."""
    from hardneg.evaluation.metrics_json import to_json

    content = to_json(measured)
    more = [key for key, wanted in {"comparisons": measured.comparisons, "per_query": per_query}.items() if wanted]
    notes = ["notes"] if measured.notes else []
    return {key: content[key] for key in ("metrics", *more, *notes)} if more else dict(content["metrics"])


def _print_queries(measured: "Measured") -> None:
    """One line a score: run, metric, query, score, separated by tabs."""
    for label, scores in measured.results.items():
        for metric, values in scores.items():
            for query_id, score in values.items():
                say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")
