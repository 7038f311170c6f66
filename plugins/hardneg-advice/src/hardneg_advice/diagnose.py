"""`diagnose`: checks of a finished run, to find out why its training did not help."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from operator import methodcaller
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    Candidates,
    RankedList,
    arguments,
    errors as faults,
    figures as hardneg_figures,
    index_files,
    layout,
    recipes,
    records,
    registry,
    sessions,
    significance,
)
from hardneg_advice.finished_run import START, FinishedRun, sample
from hardneg_advice.positive_ranks import scores_of

TRAININGS = ("train", "train-queries", "train-refreshed")
MOST_COPIES = 0.01
MOST_ABOVE = 2 / 3
"""A larger share of negatives above the positive is suspect; at 60%, negatives helped (recipe `dose-start`, static)."""
MOST_HIDDEN = 0.5
MOST_FALL = 0.01
MOST_CLOSER = 0.2
LEAST_KEPT = 1 / 3
"""A smaller share of the effective dimensions is suspect; a model that kept half improved (recipe `dose-batches`)."""
_EACH = 20
_PARTS = 5
_LEAST_STEPS = 20
_ERRORS = 3.0
_ELSE = "see the other suspects; `hardneg recommend` compares several learning rates with the model as shipped"
_LOWER = "cut options.learning_rate to a third, or train for fewer steps; check that warmup_steps is a tenth of them"
_WATCH = "; use `validation` with options.evaluate_every to see when dev scores start to fall"
Figures = dict[str, float | int | str]
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of one subject.

    state: `unknown` if the check was impossible or undecided. figures: measured values by name. advice: what to change,
    or empty. check: the name of the check. subject: the stage or row of the metrics that was checked, or empty.
    """

    state: Literal["suspect", "fine", "unknown"]
    sentence: str
    figures: Figures = field(default_factory=dict)
    advice: str = ""
    check: str = ""
    subject: str = ""

    @classmethod
    def of(cls, suspect: bool, sentence: str, figures: Figures, advice: str) -> "CheckResult":
        """Return a suspect result with its advice, or a fine one."""
        return cls("suspect", sentence, figures, advice) if suspect else cls("fine", sentence, figures)


def near_copies(run: FinishedRun, stage: str) -> CheckResult:
    """Check what share of each query's first 20 negatives has almost the same words as a positive of that query."""
    copies, count, near = 0, 0, registry.configure("filters", records.PluginSetting("near-copies", {}))
    corpus = run.collection(run.dataset_of(stage)).corpus
    texts = SimpleNamespace(documents=lambda doc_ids: corpus.documents_at(corpus.rows(doc_ids)))
    for row in run.mined(stage):
        listed = RankedList(row.negatives[:_EACH], row.scores[:_EACH])
        candidates = Candidates(row.query_id, row.positives, {"": listed}, corpus.doc_ids)
        [reasons] = near.reasons([candidates], texts)
        copies, count = copies + len(reasons), count + len(listed.doc_ids)
    share = copies / max(count, 1)
    return CheckResult.of(
        share > MOST_COPIES,
        f"{share:.1%} of {count:,} negatives have almost the same words as a positive of their query",
        {"share": share, "negatives": count, "copies": copies},
        "these are false negatives; mine with the filter near-copies (`filters: [near-copies]`)",
    )


def above_positive(run: FinishedRun, stage: str) -> CheckResult:
    """Check what share of the negatives scores above their query's best positive in the run they were mined from."""
    compared, above = 0, 0
    for row, ranked in run.listed(stage):
        best = np.nan_to_num(scores_of(row.positives, ranked), nan=-np.inf).max(initial=-np.inf)
        scores = scores_of(row.negatives, ranked)
        if np.isfinite(best):
            compared += int(np.isfinite(scores).sum())
            above += int((scores > best).sum())
    if not compared:
        return CheckResult("unknown", "no list has both a negative and a positive, so no scores can be compared")
    share = above / compared
    return CheckResult.of(
        share > MOST_ABOVE,
        f"{share:.1%} of {compared:,} negatives score above the best positive of their query in the run mined from",
        {"share": share, "negatives": compared, "above": above},
        "many may be relevant but unlabelled; inspect some with `hardneg browse`, then mine with pos-percent, "
        "max-score or denoised, mine deeper with a window, or filter with a reranker or judge",
    )


def hidden_positives(run: FinishedRun, stage: str) -> CheckResult:
    """Check what share of the queries has no positive in the ranked list from which negatives were mined."""
    rows = list(run.listed(stage))
    depth = max((len(ranked.doc_ids) for _, ranked in rows), default=0)
    hidden = sum(not np.isfinite(scores_of(row.positives, ranked)).any() for row, ranked in rows)
    share = hidden / max(len(rows), 1)
    return CheckResult.of(
        share > MOST_HIDDEN,
        f"{share:.1%} of {len(rows):,} training queries have no positive in the top {depth:,} of the run mined from",
        {"share": share, "queries": len(rows), "depth": depth},
        "the model cannot rank these positives yet; first train with in-batch negatives or start from a better model, "
        "then mine with that model; also check that labels and documents match",
    )


def learning_curve(run: FinishedRun, stage: str) -> CheckResult:
    """Check for a rising loss, or a dev metric that falls after its best value; seeds are averaged.

    The loss has risen if its mean in the last fifth of the steps is higher than in the lowest fifth by more than three
    standard errors and 10%. Refreshed negatives raise it by design. Without a dev curve, the result is never fine.
    """
    curves = _curves(run, stage)
    figures, problems, said = Figures(), list[str](), list[str]()
    losses = [value for _, value in curves.pop("loss", [])]
    if len(losses) >= _LEAST_STEPS and run.recipe.stages[stage].stage != "train-refreshed":
        size = len(losses) // _PARTS
        parts = np.asarray(losses[len(losses) - size * _PARTS :], np.float64).reshape(_PARTS, size)
        means, errors = parts.mean(axis=1), parts.var(axis=1, ddof=1) / size
        low = int(means.argmin())
        lowest, last = float(means[low]), float(means[-1])
        risen = last - lowest > _ERRORS * (errors[-1] + errors[low]) ** 0.5 and last > 1.1 * lowest
        figures |= {"lowest_loss": lowest, "last_loss": last}
        line = f"the mean loss is {last:.4g} in the last fifth of the steps and {lowest:.4g} in the lowest fifth"
        (problems if risen else said).append(line)
    if curves:
        wanted = getattr(getattr(run.recipe.stages[stage], "options", None), "metric", "")
        metric = wanted if wanted in curves else next(iter(curves))
        (step, best), (end, last) = max(curves[metric], key=lambda point: point[1]), curves[metric][-1]
        figures |= {"metric": metric, "best": best, "best_step": int(step), "last": last}
        line = f"{metric} on dev peaks at step {step:,.0f} ({best:.4f}) and is {last:.4f} at step {end:,.0f}"
        (problems if best - last > MOST_FALL else said).append(line)
    if problems or _watched(curves):
        return CheckResult.of(bool(problems), "; ".join(problems or said), figures, _LOWER)
    said.append("without a dev curve, too high a rate or too many steps remain possible: the loss can fall even then")
    return CheckResult("unknown", "; ".join(said), figures, _LOWER + _WATCH)


def _curves(run: FinishedRun, stage: str) -> dict[str, Points]:
    """Return the loss and the dev metrics by step, averaged over the seeds that have the step."""
    values: dict[str, dict[float, list[float]]] = {}
    for name in run.copies(stage):
        lines = (run.artifact(name).path / layout.HISTORY).read_text("utf-8").splitlines()
        for measured, points in hardneg_figures.measurements([json.loads(line) for line in lines]).items():
            for step, value in points:
                values.setdefault(measured, {}).setdefault(step, []).append(value)
    return {name: [(step, fmean(steps[step])) for step in sorted(steps)] for name, steps in values.items()}


def _watched(curves: Mapping[str, Points]) -> bool:
    """Return whether dev was measured during training, not only at its end."""
    return any(len(points) > 1 for name, points in curves.items() if name != "loss")


def trained_rows(run: FinishedRun) -> list[str]:
    """Return the rows of the metrics for models that the recipe trained."""
    return [label for label, encoder in _encoders(run).items() if encoder != START]


def outcome(run: FinishedRun, label: str) -> CheckResult:
    """Check whether a trained model is better than the start model by the first metric, over seeds if there are any."""
    encoders, measured = _encoders(run), run.measured
    shipped = next((row for row, encoder in encoders.items() if encoder == START), "")
    if not {label, shipped} <= measured.results.keys():
        return CheckResult("unknown", "the metrics have no row for the start model; also search and evaluate with it")
    metric = next((name for name in measured.results[label] if name in measured.results[shipped]), None)
    if metric is None:
        return CheckResult("unknown", f"{label} and {shipped} have no metric in common")
    tests: list[Any] = [*measured.over_seeds, *measured.comparisons]
    of_both = (test for test in tests if {test.system, test.baseline} == {label, shipped} and test.metric == metric)
    if (test := next(of_both, None)) is None:
        scores = {name: measured.results[name][metric] for name in (shipped, label)}
        design = significance.Design(measured.equivalence_margin, measured.query_groups)
        test = significance.compare(scores, metric, [shipped], design=design)[0]
    difference = test.difference if test.system == label else -test.difference
    decided, queries = significance.verdict(test, measured.significance_level), len(measured.results[label][metric])
    figures: Figures = {"metric": metric, "baseline": shipped, "difference": difference}
    figures |= {"verdict": decided, "queries": queries}
    line = f"{metric} differs by {difference:+.4f} from '{shipped}' over {queries:,} queries"
    if seeds := getattr(test, "seeds", None):
        line += f" and {max(seeds)} seeds"
    if decided == "difference":
        advice = f"first {_LOWER}{_WATCH}; then {_ELSE}"
        with suppress(faults.HardnegError, OSError):
            advice = _ELSE if _watched(_curves(run, encoders[label])) else advice
        return CheckResult.of(difference < 0, f"{'better' if difference > 0 else 'worse'}: {line}", figures, advice)
    if decided == "equivalent":
        return CheckResult("suspect", f"equivalent, so training did not help: {line}", figures, _ELSE)
    advice = "undecided does not mean worse; evaluate on more queries, and train with several `seeds`"
    return CheckResult("unknown", f"undecided: {line}", figures, advice)


def _encoders(run: FinishedRun) -> dict[str, str]:
    """Return, for each row of the evaluations, the stage (or `start`) that trained its query encoder."""
    encoders = dict[str, str]()
    for name in run.stages("evaluate"):
        for label, runs in run.recipe.stages[name].runs.items():
            first = run.recipe.stages.get(runs if isinstance(runs, str) else next(iter(runs.values())))
            index = getattr(first, "index", None) if getattr(first, "stage", "") == "search" else None
            if index and (encoder := run.encoder_of(index)):
                encoders.setdefault(label, encoder)
    return encoders


def trained_indexes(run: FinishedRun) -> list[str]:
    """Return the names of the stages that encode an index with a model trained by the recipe."""
    return [name for name in run.stages("encode") if run.encoder_of(name) not in ("", START)]


def collapse(run: FinishedRun, index: str) -> CheckResult:
    """Check the mean cosine of document pairs and the effective dimensions against those of the start model's index."""
    starts = [name for name in run.stages("encode") if run.encoder_of(name) == START]
    if not starts:
        return CheckResult("unknown", "the recipe encodes no index with the start model for comparison")
    first = next((name for name in starts if run.dataset_of(name) == run.dataset_of(index)), starts[0])
    (before, wide), (after, narrow) = (_spread(run, name) for name in (first, index))
    return CheckResult.of(
        after - before > MOST_CLOSER or narrow < LEAST_KEPT * wide,
        f"the mean cosine of document pairs is {after:.3f} ({first}: {before:.3f}), with {narrow:.1f} effective "
        f"dimensions ({wide:.1f})",
        {"cosine": after, "start_cosine": before, "dimensions": narrow, "start_dimensions": wide},
        "the vectors collapsed; lower the learning rate, raise the temperature or the batch size, and use fewer or "
        "easier negatives",
    )


def _spread(run: FinishedRun, stage: str) -> tuple[float, float]:
    stored = index_files.FlatVectors.open(run.index(stage))
    vectors = stored.gather(sample(len(stored), "vectors")).astype(np.float64)
    return mean_cosine(vectors), effective_dimensions(vectors)


def mean_cosine(vectors: NDArray[np.float64]) -> float:
    """Return the mean cosine of all pairs of different rows of vectors [n, d], n above 1. A zero row has cosine 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    count = len(units)
    return float((np.square(units.sum(axis=0)).sum() - np.square(units).sum()) / max(count * (count - 1), 1))


def effective_dimensions(vectors: NDArray[np.float64]) -> float:
    """Return the participation ratio tr(C)^2 / tr(C^2) of vectors [n, d] with covariance C: 1 to d, 0 for equal rows.

    Source: Gao et al., A theory of multineuronal dimensionality, dynamics and measurement (2017), equation 3.
    """
    centred = vectors - vectors.mean(axis=0)
    covariance = centred.T @ centred
    total = np.square(covariance).sum()
    return float(np.trace(covariance) ** 2 / total) if total else 0.0


_mined, _trainings = methodcaller("stages", "mine"), methodcaller("stages", *TRAININGS)
_NO_NEGATIVES = "the recipe has no mining stage"
Check = tuple[Callable[[FinishedRun, str], CheckResult], Callable[[FinishedRun], Sequence[str]], str]
CHECKS: dict[str, Check] = {
    "outcome": (outcome, trained_rows, "the recipe evaluates no model that it trains"),
    "near copies": (near_copies, _mined, _NO_NEGATIVES),
    "above the positive": (above_positive, _mined, _NO_NEGATIVES),
    "hidden positives": (hidden_positives, _mined, _NO_NEGATIVES),
    "learning curve": (learning_curve, _trainings, "the recipe trains no encoder"),
    "collapse": (collapse, trained_indexes, "the recipe encodes no index with a model that it trains"),
}
"""Checks by name: the check of a subject, a function that lists a run's subjects, and the message if there are none."""


def _results(run: FinishedRun) -> Iterator[CheckResult]:
    """Yield one result per check and subject, unknown if its input is missing or damaged."""
    for name, (check, subjects, lacking) in CHECKS.items():
        if not (found := subjects(run)):
            yield CheckResult("unknown", lacking, check=name)
        for subject in found:
            try:
                result = check(run, subject)
            except (faults.HardnegError, OSError) as error:
                result = CheckResult("unknown", f"could not be checked: {error}")
            yield replace(result, check=name, subject=subject)


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks of a run, in the order of `CHECKS`, and next steps, each a sentence and a command."""

    results: tuple[CheckResult, ...]
    next: tuple[tuple[str, str], ...] = ()

    @property
    def suspect(self) -> tuple[CheckResult, ...]:
        """The results of the checks that found a possible cause."""
        return tuple(result for result in self.results if result.state == "suspect")

    def to_dict(self) -> dict[str, Any]:
        """Return results and next steps as JSON values."""
        steps = [{"sentence": sentence, "command": command} for sentence, command in self.next]
        return {"results": [asdict(result) for result in self.results], "next": steps}


def diagnose(folder: str | Path, store: str | Path | None = None) -> Diagnosis:
    """Check why the training of a finished run did not help, or made results worse; nothing is written.

    Args:
        folder: the run folder of a finished recipe.
        store: the store with the run's artifacts; None for the default store.

    Raises:
        DataError: the folder is not a run folder, or its lock file is damaged.
        RecipeError: the recipe does not fit this version of hardneg.
    """
    run = FinishedRun.open(arguments.file_path(folder, "folder"), sessions.usual_store(store))
    steps = list[tuple[str, str]]()
    with suppress(faults.HardnegError):  # there are none without readable metrics
        steps = recipes.next_steps(run.recipe, run.folder, diagnosed=True)
    return Diagnosis(tuple(_results(run)), tuple(steps))
