"""`evaluate`: runs scored as trec_eval does, and their differences tested."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.api.labels import METRICS
from hardneg.lines.base import Argument, Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, QRELS, RUNS, optional
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.evaluation import Evaluation
    from hardneg.api.judging import Judge
    from hardneg.api.workplace import Workplace
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.formats.collection import StoredCollection

_log = logging.getLogger("hardneg")


def _names(argument: str, value: Any) -> list[str]:
    from hardneg.api.argument_values import names_of

    return names_of(argument, value)


class EvaluateLine(Line):
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.
    answer@k is the share of questions with an answer in the top k, over the questions of a dataset that have answers.
    Judgements default to the dataset's, else to those of the dataset that the first run was searched in.

    Raises:
        UsageError: a metric or a baseline is unknown, a level is none, or there are no judgements.
        DataError: a file has a mistake.
    """

    name = "evaluate"
    returns = "Evaluation"
    shows = ("settings", "store", "device")
    arguments = (
        RUNS,
        replace(QRELS, help="Judgements: TREC or BEIR form, plain or gzip; else the dataset's."),
        Argument(
            "metrics",
            f"One or several; default {' '.join(METRICS)}.",
            "str | Iterable[str]",
            (),
            list[str],
            partial(_names, "metrics"),
            same=("metric",),
            metavar="NAME...",
            metrics=True,
        ),
        Of("evaluate.relevance_level"),
        Of("evaluate.significance_level"),
        Of("evaluate.equivalence_margin"),
        Of("evaluate.query_groups"),
        Of("evaluate.by_group"),
        Argument(
            "baselines",
            "Compare with this run only (its file's name); default: all pairs.",
            "str | Iterable[str]",
            (),
            list[str],
            partial(_names, "baselines"),
            flag="baseline",
        ),
        replace(
            optional(DATASET), help="For answer@k, and a report's texts: beir:FOLDER, dpr:FOLDER, or a plugin's name."
        ),
        Of("evaluate.split", of_dataset=True),
        Of("evaluate.answer_match"),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """No recipe but that of the dataset, which is read where it is needed."""
        judging = RunsToScore.of(args, workplace)
        return Job(None, lambda plan, workplace: judging.evaluation(), [*judging.files.values()])


@dataclass(frozen=True)
class RunsToScore:
    """Runs to score, by their labels, and by what; baselines: labels of the runs to compare with."""

    args: Arguments
    files: Mapping[str, Path]
    metrics: list[str]
    baselines: list[str]
    judge: "Judge"

    @classmethod
    def of(cls, args: Arguments, workplace: "Workplace") -> "RunsToScore":
        """What the arguments ask for. Raises UsageError where a metric or a baseline is unknown."""
        from hardneg.api.labels import known_baselines, known_metrics
        from hardneg.api.run_argument import labelled_runs

        metrics, files = known_metrics(args.metrics), labelled_runs(args.runs, workplace.store)
        by_path = {str(path): label for label, path in files.items()}
        baselines = known_baselines([by_path.get(name, name) for name in args.baselines], list(files))
        return cls(args, files, metrics, baselines, judge_of(args, workplace))

    def measured(self) -> "Measured":
        """The scores, not yet compared."""
        return self.judge.measured(self.metrics, self.files)

    def tested(self, measured: "Measured") -> "Measured":
        """The scores with the tests of their differences."""
        from hardneg.api.judging import tested
        from hardneg.formats.id_pairs import read_query_groups

        args, groups = self.args, None
        if args.by_group:
            groups = self.judge.query_groups(args.by_group is True)
        if args.query_groups is not None:
            groups = read_query_groups(Path(args.query_groups))
        return tested(measured, self.baselines, args.significance_level, args.equivalence_margin, groups)

    def evaluation(self) -> "Evaluation":
        """What the function returns; what must be known beside it goes to the log."""
        from hardneg.api.evaluation import Evaluation

        measured = self.measured()
        for note in measured.notes:
            _log.warning(note)
        reads = [*self.files.values(), *([self.judge.qrels] if isinstance(self.judge.qrels, Path) else [])]
        return Evaluation(self.tested(measured), reads)


def judge_of(args: Arguments, workplace: "Workplace") -> "Judge":
    """What runs are judged by: judgements, or those of the dataset, named or that of the first run."""
    from hardneg.api.dataset_argument import named_dataset
    from hardneg.api.judging import Judge
    from hardneg.api.qrels_argument import named_qrels
    from hardneg.api.results import source_of_runs

    qrels, level, match = named_qrels(args.qrels), args.relevance_level, args.answer_match
    if args.dataset is not None:
        named, split = named_dataset(args.dataset, workplace.store), EvaluateLine().split(args)
        return Judge(qrels, level, named, split, match, partial(_collection, named, workplace))
    workplace.refuse_settings()
    source = source_of_runs(args.runs)
    usual = EvaluateLine.resolved()["split"].default
    if source is None:
        return Judge(qrels, level, None, args.split or usual, match, _none)
    return Judge(qrels, level, "the dataset of the runs", args.split or source.split, match, lambda: source.collection)


def _collection(dataset: str, workplace: "Workplace") -> "StoredCollection":
    """The stored collection, read now unless the store has it."""
    from hardneg.api.adhoc_recipe import AdhocRecipe
    from hardneg.api.single_stage import make_dataset
    from hardneg.formats.collection import StoredCollection

    recipe = AdhocRecipe("evaluate", dataset, settings=workplace.settings)
    return StoredCollection.open(make_dataset(recipe.plan(), workplace).path)


def _none() -> "StoredCollection":
    raise UsageError("{dataset}: none is named", "dataset")
