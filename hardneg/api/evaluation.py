"""`hardneg.evaluate`: runs scored as trec_eval does, and their differences tested."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.given_dataset import Dataset, named_dataset, split_of
from hardneg.api.given_qrels import AnyQrels, named_qrels
from hardneg.api.given_run import labelled_runs
from hardneg.api.given_values import field_value, names_of
from hardneg.api.judging import Judge, tested
from hardneg.api.labels import known_baselines, known_metrics
from hardneg.api.making import make_dataset
from hardneg.api.notebook import html_graphics, html_section, html_table
from hardneg.api.results import source_of_runs
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.api.writing import writing
from hardneg.data.collection import StoredCollection
from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.metrics_json import Measured, to_json, write_metrics
from hardneg.reporting.content import ReportContent, systems_section, tests_by_metric
from hardneg.reporting.intervals import means_graphic
from hardneg.wording import counted

_log = logging.getLogger("hardneg")


class JudgingOptions(Where, total=False):
    """What `evaluate` takes besides.

    dataset: whose judgements count, and whose answers `answer@k` looks for. split: its queries; test. relevance_level:
    the lowest grade that binary metrics take as relevant. answer_match: whether answers are words, or regular
    expressions. significance_level: the corrected p below which a difference is marked; .01.
    """

    dataset: Dataset
    split: str
    relevance_level: int
    answer_match: Literal["string", "regex"]
    significance_level: float


def evaluate(
    runs: Any,
    qrels: AnyQrels | None = None,
    *,
    metrics: Iterable[str] = (),
    baselines: Iterable[str] = (),
    **given: Unpack[JudgingOptions],
) -> "Evaluation":
    """Scores runs against judgements, and tests the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.

    Args:
        runs: one run, a list of them, or a dict of them by label.
        qrels: a file, or grades by document id by query id; else those of `dataset`, else those of the dataset that the
            first run was searched in.
        metrics: such as `ndcg@10`; if none, ndcg@10, mrr@10 and recall@100.
        baselines: labels of runs to compare with; else each with each.
        given: `JudgingOptions`, and what every function takes (`Where`).

    Raises:
        UsageError: a metric or a baseline is unknown, a level is none, or there are no judgements.
        DataError: a file has a mistake.
    """
    own = taken(given, JudgingOptions)
    place, names = Workplace.of(given), known_metrics(names_of("metrics", metrics))
    labels = labelled_runs(runs, place.store)
    compared = known_baselines(names_of("baselines", baselines), list(labels))
    judge = _judge(runs, qrels, own, place)
    measured = judge.measured(names, labels)
    for note in measured.notes:
        _log.warning(note)
    reads = [*labels.values(), *([judge.qrels] if isinstance(judge.qrels, Path) else [])]
    return Evaluation(tested(measured, compared, own.get("significance_level", LEVEL)), reads)


def _judge(runs: Any, qrels: AnyQrels | None, own: Mapping[str, Any], place: Workplace) -> Judge:
    level = field_value("evaluate.relevance_level", "relevance_level", own.get("relevance_level", 1))
    match = field_value("evaluate.answer_match", "answer_match", own.get("answer_match", "string"))
    if "dataset" in own:
        named, split = named_dataset(own["dataset"], place.store), split_of(own["dataset"], own.get("split"), "test")
        recipe = AdhocRecipe("evaluate", named, settings=place.settings)
        read = lambda: StoredCollection.open(make_dataset(recipe.plan(), place).path)  # noqa: E731
        return Judge(named_qrels(qrels), level, named, split, match, read)
    source = source_of_runs(runs)
    if source is None:
        return Judge(named_qrels(qrels), level, None, "test", match, _nothing)
    split = own.get("split", source.split)
    return Judge(named_qrels(qrels), level, "the dataset of the runs", split, match, lambda: source.collection)


def _nothing() -> StoredCollection:
    raise AssertionError("no dataset is named")


@dataclass(frozen=True)
class Evaluation:
    """Runs that were measured: means, scores by query, intervals and paired tests; reads: the files they came from."""

    measured: Measured = field(repr=False)
    reads: Sequence[Path] = field(default=(), repr=False, compare=False)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Means by metric by run."""
        return {label: dict(values) for label, values in self.to_dict()["metrics"].items()}

    @property
    def notes(self) -> Sequence[str]:
        """What must be known beside the figures, such as queries that a run lacks; one line each."""
        return self.measured.notes

    @property
    def per_query(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """Scores by query id by metric by run."""
        return self.measured.results

    @property
    def comparisons(self) -> Sequence[Any]:
        """Paired tests: differences, their intervals, p values before and after Holm's correction."""
        return self.measured.comparisons

    def to_dict(self) -> dict[str, Any]:
        """What a metrics file holds: `metrics`, `intervals`, `comparisons`, `notes`, `per_query`."""
        return to_json(self.measured)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, a row a run and metric: `run`, `metric`, `mean`, `low`, `high`, of a 95 % interval.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from hardneg.api.tables import frame_of_rows

        told = self.to_dict()
        none = (None, None)
        return frame_of_rows(
            [
                {"run": label, "metric": metric, "mean": mean, "low": low, "high": high}
                for label, means in told["metrics"].items()
                for metric, mean in means.items()
                for low, high in [told["intervals"][label][metric] or none]
            ]
        )

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a metrics file, which `hardneg.analyze` and reports read; its own earlier one is replaced.

        Raises:
            UsageError: a run or the judgements that were measured stand there, or something else does and `overwrite`
                is not given.
        """
        with writing("Evaluation.write", [path], overwrite, reads=self.reads) as (file,):
            write_metrics(file, self.measured)

    def __repr__(self) -> str:
        means = "; ".join(
            f"{label}: {', '.join(f'{name} {mean:.4f}' for name, mean in values.items())}"
            for label, values in self.metrics.items()
        )
        return f"Evaluation({counted(self._content.queries, 'query')}; {means})"

    @property
    def _content(self) -> ReportContent:
        return ReportContent.of("", self.measured)

    def _repr_html_(self) -> str:
        tests = "".join(map(html_table, tests_by_metric(self.measured.comparisons, self.measured.significance_level)))
        metrics = enumerate(self._content.metrics)
        figures = (means_graphic(self._content, metric, f"means-{place}") for place, metric in metrics)
        return html_section(systems_section(self._content)) + html_graphics(figures) + tests
