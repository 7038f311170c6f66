"""`hardneg evaluate`: scores TREC run files with the figures of trec_eval, and tests their differences."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hardneg.cli import completion
from hardneg.cli.answer_metrics import Judge, covered, judgements
from hardneg.cli.options import SET, STORE
from hardneg.cli.printing import say, say_json
from hardneg.counting import counted
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.data.collection import StoredCollection
    from hardneg.data.qrels import Qrels
    from hardneg.data.runs import Run
    from hardneg.evaluation.metrics import Scores
    from hardneg.evaluation.metrics_json import Measured

_METRICS = ("ndcg@10", "mrr@10", "recall@100")
_COMPILE_NOTE_SECONDS = 3.0


QrelsFile = Annotated[Path, typer.Option("--qrels", help="Judgements: TREC or BEIR form, plain or gzip.")]
RunFiles = Annotated[list[Path], typer.Option("--run", help="A TREC run, plain or gzip; give --run for each.")]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="NAME...",
        help=f"One or several; if none, {' '.join(_METRICS)}.",
        autocompletion=completion.metrics,
    ),
]
MoreNames = Annotated[list[str] | None, typer.Argument(hidden=True, metavar="NAME", autocompletion=completion.metrics)]
Level = Annotated[
    int, typer.Option(min=1, help="The lowest grade that binary metrics take as relevant (trec_eval -l).")
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


def evaluate(
    run: RunFiles,
    qrels: JudgementsFile = None,
    metrics: MetricNames = None,
    more_metrics: MoreNames = None,
    relevance_level: Level = 1,
    baseline: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="Compare with this run only (its file's name); else each with each."),
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Print each query's scores too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    dataset: DatasetName = None,
    split: Split = "test",
    answer_match: AnswerMatch = "string",
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.
    answer@k is the share of questions with an answer in the top k, over the questions of a dataset that have answers.

    Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10 mrr@10
    """
    names = metric_names(metrics or [], more_metrics or [])
    labels = run_labels(run)
    baselines = baseline_labels(baseline or [], labels)
    judge = Judge(qrels, relevance_level, dataset, split, answer_match, settings, store)
    measured = judged(names, labels, judge, judge.collection("hardneg evaluate"))
    if as_json:
        say_json(_json(tested(measured, baselines) if baselines else measured, per_query))
        return
    if per_query:
        _print_queries(measured)
    _print_tables(tested(measured, baselines))


def metric_names(after_flag: Sequence[str], words: Sequence[str]) -> list[str]:
    """Metric names: repeated, joined by commas, or several words after one flag (which are arguments)."""
    from hardneg.evaluation.answer_coverage import answer_cutoffs
    from hardneg.evaluation.metrics import parse_metrics

    given = split_names(after_flag, words)
    if judged := [name for name in given or _METRICS if name not in answer_cutoffs(given)]:
        parse_metrics(judged)
    return list(dict.fromkeys(given or _METRICS))


def split_names(after_flag: Sequence[str], words: Sequence[str]) -> list[str]:
    """What stands after a flag, repeated, joined by commas, or as several words."""
    for word in words:
        if Path(word).is_file():
            raise UsageError(f"{word} is a file where a metric is expected; give --run before each run file")
    return [name for text in (*after_flag, *words) for name in text.split(",") if name]


def run_labels(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each run: its file's name, with as many folders before it as tell equal ones apart."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{twice} is given twice; give each run once")
    return {path: _shortest_tail(path, [p for p in paths if p.name == path.name]) for path in paths}


def baseline_labels(names: Sequence[str], labels: dict[Path, str]) -> list[str]:
    """The labels of the runs to compare with, which may be named by label or by path."""
    found = [labels.get(Path(name), name) for name in names]
    for name in found:
        if name not in labels.values():
            raise UsageError(f"baseline {name} is not among the runs: {', '.join(labels.values())}")
    return found


def _shortest_tail(path: Path, namesakes: Sequence[Path]) -> str:
    for length in range(1, len(path.parts) + 1):
        tail = path.parts[-length:]
        if sum(other.parts[-length:] == tail for other in namesakes) == 1:
            return Path(*tail).as_posix()
    return path.as_posix()


def _to_stderr(note: str) -> None:
    say(note, err=True)


def judged(
    names: list[str],
    labels: dict[Path, str],
    judge: Judge,
    collection: "StoredCollection | None",
    note: Callable[[str], None] = _to_stderr,
) -> "Measured":
    """Each run's scores by judgements, be they in a file or the dataset's, and by answers; not yet compared."""
    from hardneg.evaluation.answer_coverage import answer_cutoffs
    from hardneg.evaluation.metrics_json import Measured

    cutoffs = answer_cutoffs(names)
    by_answers = covered(collection, judge, labels, cutoffs, note)
    results = {label: by_answers.get(label, {}) for label in labels.values()}
    if by_judgements := [name for name in names if name not in cutoffs]:
        measured = measure(judgements(judge, collection), labels, by_judgements, judge.level, note)
        results = {label: {**measured.results[label], **results[label]} for label in results}
    return Measured({label: {name: scores[name] for name in names} for label, scores in results.items()})


def measure(
    qrels_path: Path, labels: dict[Path, str], names: list[str], level: int, note: Callable[[str], None] = _to_stderr
) -> "Measured":
    """Each run's scores by metric and query, not yet compared; `note` is told what is left out."""
    from hardneg.data.qrels import read_qrels
    from hardneg.data.runs import read_run
    from hardneg.evaluation.metrics import evaluate as evaluate_run
    from hardneg.evaluation.metrics import warm_up
    from hardneg.evaluation.metrics_json import Measured

    qrels = read_qrels(qrels_path)
    results: dict[str, Scores] = {}
    for path, label in labels.items():
        run = read_run(path)
        for line in _coverage_notes(label, run, qrels):
            note(line)
        if not results:
            with _compile_note():
                warm_up(names)
        results[label] = evaluate_run(run, qrels, names, level)
    return Measured(results, [])


def _coverage_notes(label: str, run: "Run", qrels: "Qrels") -> Iterator[str]:
    from hardneg.evaluation.metrics import coverage

    counts = coverage(run, qrels)
    if not counts.shared:
        yield f"{label}: no query of the run is judged; are these the right judgements?"
    elif counts.unranked:
        missing = "judged query is not in the run and scores 0", "judged queries are not in the run and score 0"
        yield f"{label}: {counted(counts.unranked, *missing)}"
    if counts.shared and counts.unjudged:
        unjudged = "query has no judgement and is left out", "queries have no judgement and are left out"
        yield f"{label}: {counted(counts.unjudged, *unjudged)}"


@contextmanager
def _compile_note() -> Iterator[None]:
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


def _json(measured: "Measured", per_query: bool) -> dict[str, Any]:
    """The means by run and metric; with the scores, or with paired tests, a mapping as in a metrics file."""
    from hardneg.evaluation.metrics_json import to_json

    content = to_json(measured)
    more = [key for key, wanted in {"comparisons": measured.comparisons, "per_query": per_query}.items() if wanted]
    found = {key: content[key] for key in ("metrics", *more)} if more else content["metrics"]
    return found


def tested(measured: "Measured", baselines: Sequence[str]) -> "Measured":
    """With the paired tests of the runs against the baselines, or of each with each."""
    from dataclasses import replace

    from hardneg.evaluation.significance import compare_all

    return replace(measured, comparisons=compare_all(measured.results, baselines))


def _print_queries(measured: "Measured") -> None:
    """One line a score: run, metric, query, score, separated by tabs."""
    for label, scores in measured.results.items():
        for metric, values in scores.items():
            for query_id, score in values.items():
                say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")


def _print_tables(measured: "Measured") -> None:
    from hardneg.cli.console import stdout_console
    from hardneg.cli.render import measured_tables

    measured_tables(stdout_console(), measured)
