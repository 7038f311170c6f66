"""The function `evaluate`, which scores runs as trec_eval does and tests their differences."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from hardneg import evaluation, formats, report as reports
from hardneg.evaluation import LEVEL, MARGIN, known_level, known_margin
from hardneg.functions import given, results
from hardneg.functions.arguments import AnyQrels, Arg, Dataset, Runs, Split, Where, names_of, spelled_out, stage
from hardneg.functions.session import AdhocRecipe, Session, named_dataset
from hardneg.records import DataError, MissingDependency, UsageError, counted

_log = logging.getLogger("hardneg")

METRICS = ("ndcg@10", "mrr@10", "recall@100")
RELEVANCE = Arg("Lowest grade that binary metrics count as relevant (trec_eval -l).", least=1)
EQUIVALENCE = Arg("Systems are equivalent if their means differ by less than this.")
_QRELS = Arg("Judgements in TREC or BEIR format, plain or gzipped; default: the dataset's.", cli=Path)
_METRICS = f"One or more metrics, separated by commas; default: {','.join(METRICS)}."
_GROUPS = "Resample groups of queries, as defined in this file (query id, tab and group per line)."
_BY_GROUP = "Resample the dataset's groups of queries, not single queries (`where_known`: if it has any)."
_BASELINES = "Compare only with this run, given by its file name; default: all pairs."
_DATASET = "The dataset for answer@k and for the texts of a report: beir:FOLDER, or a plugin's name."

Metrics = Annotated[
    str | Iterable[str], Arg(_METRICS, cli=list[str], same=("metric",), metavar="NAME[,NAME]", metrics=True)
]


@spelled_out
def evaluate(
    runs: Runs,
    qrels: Annotated[AnyQrels | None, _QRELS] = None,
    *,
    metrics: Metrics = (),
    relevance_level: Annotated[int, RELEVANCE] = 1,
    significance_level: Annotated[
        float, Arg("A difference is significant if both corrected p-values are below this.")
    ] = LEVEL,
    equivalence_margin: Annotated[float, EQUIVALENCE] = MARGIN,
    query_groups: Annotated[str | Path | None, Arg(_GROUPS, cli=Path)] = None,
    by_group: Annotated[bool | Literal["where_known"], Arg(_BY_GROUP)] = False,
    baselines: Annotated[str | Iterable[str], Arg(_BASELINES, cli=list[str], flag="baseline")] = (),
    dataset: Annotated[Dataset | None, Arg(_DATASET, plugin="datasets")] = None,
    split: Split = None,
    answer_match: Annotated[
        Literal["string", "regex"], Arg("Match answers as words, or as regular expressions.")
    ] = "string",
    **where: Unpack[Where],
) -> "Evaluation":
    """Score runs against relevance judgements, as trec_eval does, and test the differences between them.

    Means are over all judged queries; a query without results, or without relevant documents, scores 0. answer@k is the
    share of questions with an answer in the top k; questions without known answers are not counted. By default,
    judgements come from the dataset or, without one, from the dataset that the first run searched.

    Raises:
        UsageError: a metric or baseline is unknown, a level is invalid, or there are no judgements.
        DataError: a file is malformed.

    Example: hardneg evaluate --qrels qrels.txt --run a.trec.gz --run b.trec.gz --metrics ndcg@10,mrr@10
    """
    arguments = {name: value for name, value in locals().items() if name != "where"}
    judging = RunsToScore.of(Session.of(where, evaluate), arguments)
    measured = judging.measured()
    for note in measured.notes:
        _log.warning(note)
    reads = [*judging.files.values(), *([judging.qrels] if isinstance(judging.qrels, Path) else [])]
    return Evaluation(judging.tested(measured), reads)


@dataclass(frozen=True)
class RunsToScore:
    """The runs to score, and the metrics, judgements and tests to use.

    files: run files by label. baselines: labels of the runs to compare with. qrels: judgements or their file; None for
    the dataset's. dataset: its name, or None. read: opens the collection. fields: the options of stage `evaluate`.
    """

    files: Mapping[str, Path]
    metrics: list[str]
    baselines: list[str]
    qrels: "Path | formats.qrels.Qrels | None"
    dataset: str | None
    split: str
    read: "Callable[[], formats.collection.StoredCollection]"
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, session: Session, arguments: Mapping[str, Any]) -> "RunsToScore":
        """Return the runs to score, given the arguments of `evaluate` by name. Raises UsageError if one is invalid."""
        names = ("relevance_level", "significance_level", "equivalence_margin", "query_groups", "by_group")
        fields = {name: arguments[name] for name in (*names, "answer_match") if name in arguments}
        metrics = list(dict.fromkeys(names_of("metrics", arguments.get("metrics", ())) or METRICS))
        if others := [name for name in metrics if name not in evaluation.metrics.answer_cutoffs(metrics)]:
            evaluation.metrics.parse_metrics(others)
        files = given.labelled_runs(arguments["runs"], session.store)
        by_path = {str(path): label for label, path in files.items()}
        baselines = [by_path.get(name, name) for name in names_of("baselines", arguments.get("baselines", ()))]
        if unknown := [name for name in baselines if name not in files]:
            raise UsageError(f"unknown baseline {unknown[0]!r}; available: {', '.join(files)}")
        dataset, split = arguments.get("dataset"), arguments.get("split")
        if dataset is not None:
            dataset, split = named_dataset(dataset, session.store), split or given.split_of(dataset, "test")
            read: Callable[[], formats.collection.StoredCollection] = partial(_collection, dataset, session)
        else:
            session.refuse_settings()
            source = results.source_of_runs(arguments["runs"])
            split = split or (source.split if source else "test")
            dataset, read = "the dataset of the runs" if source else None, partial(getattr, source, "collection")
        qrels = given.named_qrels(arguments.get("qrels"))
        return cls(files, metrics, baselines, qrels, dataset, split, read, stage("evaluate", fields))

    @cached_property
    def collection(self) -> "formats.collection.StoredCollection | None":
        """The stored collection, read on first use; None without a dataset."""
        return None if self.dataset is None else self.read()

    def grades(self) -> "formats.qrels.Qrels":
        """Return the given judgements, else those of the collection's split, else an empty dict."""
        if self.qrels is not None:
            return formats.qrels.read_qrels(self.qrels) if isinstance(self.qrels, Path) else self.qrels
        return {} if self.collection is None else self.collection.judged(self.split)

    def measured(self) -> "evaluation.metrics_json.Measured":
        """Return the scores of each run against judgements and answers, with notes but without significance tests.

        Raises UsageError if judgements or answers are missing, and DataError if no query of a run is judged.
        """
        from hardneg.stages.evaluate import score_runs

        cutoffs, qrels = evaluation.metrics.answer_cutoffs(self.metrics), dict[str, dict[str, int]]()
        if cutoffs and self.collection is None:
            problem = f"{next(iter(cutoffs))} needs a dataset with answers; give {{dataset}} and {{split}}"
            raise UsageError(problem, "dataset", "split")
        if cutoffs.keys() != {*self.metrics}:
            if self.qrels is None and self.dataset is None:
                raise UsageError("no judgements; give {qrels}, or {dataset} and {split}", "qrels", "dataset", "split")
            qrels = self.grades()
            if self.qrels is None and not qrels:
                raise UsageError(f"split {self.split} of {self.dataset} has no judgements; give {{qrels}}", "qrels")
        rows = {label: (label, path, self.metrics) for label, path in self.files.items()}
        level, match = self.fields["relevance_level"], self.fields.get("answer_match", "string")
        scores, left_out, notes = score_runs(rows, qrels, level, self.collection, self.split, match)
        judged = [name for name in self.metrics if name not in cutoffs]
        for label, path in self.files.items() if judged else ():
            if any(score for name in judged for score in scores[label][name].values()):
                continue
            own = list(dict.fromkeys(query_id for query_id, _ in formats.runs.stream_run(path)))
            if not qrels.keys() & {*own}:
                judges = "the judgements" if self.qrels is not None else f"split {self.split} of {self.dataset}"
                judges = str(self.qrels) if isinstance(self.qrels, Path) else judges
                ids, known = (", ".join([*names][:3]) + ", ..." * (len(names) > 3) for names in (own, qrels))
                problem = f"none of its queries is judged (query ids {ids} in {path}, but {known} in {judges})"
                raise DataError(f"{label}: {problem}; give judgements for the queries of this run")
        said = [*notes, *(f"{reason}: {count}" for reason, count in left_out.items())]
        return evaluation.metrics_json.Measured(scores, notes=tuple(said))

    def tested(self, measured: "evaluation.metrics_json.Measured") -> "evaluation.metrics_json.Measured":
        """Return `measured` with paired tests of the runs against the baselines or, without baselines, of all pairs."""
        groups, by_group = None, self.fields["by_group"]
        if "query_groups" in self.fields:
            groups = formats.qrels.read_query_groups(Path(self.fields["query_groups"]))
        elif by_group:
            groups = (None if self.collection is None else self.collection.groups("query")) or None
            if by_group is True and groups is None:
                problem = "{by_group} needs a dataset with groups of queries; choose one, or give {query_groups}"
                raise UsageError(problem, "by_group", "query_groups")
        margin = self.fields["equivalence_margin"]
        return replace(
            measured,
            comparisons=evaluation.significance.compare_all(
                measured.results, self.baselines, design=evaluation.significance.Design(margin, groups)
            ),
            significance_level=known_level(self.fields["significance_level"]),
            equivalence_margin=known_margin(margin),
            query_groups=groups,
        )


def _collection(dataset: str, session: Session) -> "formats.collection.StoredCollection":
    plan = AdhocRecipe("evaluate", dataset, settings=session.settings).plan()
    return formats.collection.StoredCollection.open(session.make_dataset(plan).path)


@dataclass(frozen=True)
class Evaluation:
    """The scores of runs: means, scores by query, intervals and paired tests. reads: inputs not to be overwritten."""

    measured: "evaluation.metrics_json.Measured" = field(repr=False)
    reads: Sequence[Path] = field(default=(), repr=False, compare=False)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The mean scores, by run label and metric name."""
        return {label: dict(values) for label, values in self.to_dict()["metrics"].items()}

    @property
    def notes(self) -> Sequence[str]:
        """Notes on the scores, such as queries missing from a run; one line each."""
        return self.measured.notes

    @property
    def per_query(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """The score of each query, by run label, metric name and query id."""
        return self.measured.results

    @property
    def comparisons(self) -> Sequence[Any]:
        """The paired tests: differences, intervals, and p values before and after Holm's correction."""
        return self.measured.comparisons

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a metrics file: `metrics`, `intervals`, `comparisons`, `notes`, `per_query`."""
        return evaluation.metrics_json.to_json(self.measured)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with columns `run`, `metric`, `mean`, and `low` and `high` of a 95% interval.

        Raises MissingDependency if pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise MissingDependency("to_pandas needs pandas: pip install pandas") from error
        content, rows = self.to_dict(), []
        for label, means in content["metrics"].items():
            for metric, mean in means.items():
                low, high = content["intervals"][label][metric] or (None, None)
                rows.append({"run": label, "metric": metric, "mean": mean, "low": low, "high": high})
        return DataFrame(rows)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a metrics file for `hardneg.analyze` and reports, replacing one that this method wrote earlier.

        Raises UsageError if the path is an input, or another writer's file exists there and `overwrite` is not set.
        """
        with results.writing("Evaluation.write", [path], overwrite, reads=self.reads) as (file,):
            evaluation.metrics_json.write_metrics(file, self.measured)

    def __repr__(self) -> str:
        means = (
            f"{label}: {', '.join(f'{name} {mean:.4f}' for name, mean in values.items())}"
            for label, values in self.metrics.items()
        )
        queries = {query_id for scores in self.per_query.values() for each in scores.values() for query_id in each}
        return f"Evaluation({counted(len(queries), 'query')}; {'; '.join(means)})"

    def _repr_markdown_(self) -> str:
        return reports.page.markdown(reports.content.ReportContent.of("", self.measured))
