"""`evaluate`: runs scored as trec_eval does, and their differences tested."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from hardneg.api.arguments import AnyQrels, Arg, Dataset, Runs, Split, Where, spelled_out
from hardneg.api.labels import METRICS
from hardneg.evaluation.levels import LEVEL, MARGIN
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.evaluation import Evaluation
    from hardneg.api.judging import Judge
    from hardneg.api.workplace import Workplace
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.formats.collection import StoredCollection

_log = logging.getLogger("hardneg")

RELEVANCE = Arg("The lowest grade that binary metrics take as relevant (trec_eval -l).", least=1)
EQUIVALENCE = Arg("Systems are equivalent where their means surely differ by less than this.")
_QRELS = Arg("Judgements: TREC or BEIR form, plain or gzip; else the dataset's.", cli=Path)
_METRICS = f"One or several; default {' '.join(METRICS)}."
_GROUPS = "The same with groups from a file: a query's id, a tab and its group per line."
_BY_GROUP = "Queries come in the dataset's groups (`where_known`: if it has any), which are drawn at random."
_BASELINES = "Compare with this run only (its file's name); default: all pairs."
_DATASET = "For answer@k, and a report's texts: beir:FOLDER, or a plugin's name."

Metrics = Annotated[
    str | Iterable[str], Arg(_METRICS, cli=list[str], same=("metric",), metavar="NAME...", metrics=True)
]


@spelled_out
def evaluate(
    runs: Runs,
    qrels: Annotated[AnyQrels | None, _QRELS] = None,
    *,
    metrics: Metrics = (),
    relevance_level: Annotated[int, RELEVANCE] = 1,
    significance_level: Annotated[float, Arg("A difference is marked where both corrected p are below this.")] = LEVEL,
    equivalence_margin: Annotated[float, EQUIVALENCE] = MARGIN,
    query_groups: Annotated[str | Path | None, Arg(_GROUPS, cli=Path)] = None,
    by_group: Annotated[bool | Literal["where_known"], Arg(_BY_GROUP)] = False,
    baselines: Annotated[str | Iterable[str], Arg(_BASELINES, cli=list[str], flag="baseline")] = (),
    dataset: Annotated[Dataset | None, Arg(_DATASET, plugin="datasets")] = None,
    split: Split = None,
    answer_match: Annotated[Literal["string", "regex"], Arg("Answers are words, or regular expressions.")] = "string",
    **where: Unpack[Where],
) -> "Evaluation":
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.
    answer@k is the share of questions with an answer in the top k, over the questions of a dataset that have answers.
    Judgements default to the dataset's, else to those of the dataset that the first run was searched in.

    Raises:
        UsageError: a metric or a baseline is unknown, a level is none, or there are no judgements.
        DataError: a file has a mistake.
    """
    from hardneg.api.workplace import Workplace

    given = {"runs": runs, "qrels": qrels, "metrics": metrics, "baselines": baselines}
    given |= {"dataset": dataset, "split": split, "relevance_level": relevance_level, "answer_match": answer_match}
    given |= {"significance_level": significance_level, "equivalence_margin": equivalence_margin}
    given |= {"query_groups": query_groups, "by_group": by_group}
    return RunsToScore.of(Workplace.of(where, evaluate), given).evaluation()


@dataclass(frozen=True)
class RunsToScore:
    """Runs to score, by their labels, and by what; baselines: labels of the runs to compare with.

    fields: those of the stage `evaluate` that the tests take.
    """

    files: Mapping[str, Path]
    metrics: list[str]
    baselines: list[str]
    judge: "Judge"
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, workplace: "Workplace", given: Mapping[str, Any]) -> "RunsToScore":
        """What the arguments of `evaluate` ask for. Raises UsageError where one is wrong."""
        from hardneg.api.argument_values import names_of, stage
        from hardneg.api.labels import known_baselines, known_metrics
        from hardneg.api.run_argument import labelled_runs

        names = ("relevance_level", "significance_level", "equivalence_margin", "query_groups", "by_group")
        fields = stage("evaluate", {name: given[name] for name in (*names, "answer_match") if name in given})
        metrics = known_metrics(names_of("metrics", given.get("metrics", ())))
        files = labelled_runs(given["runs"], workplace.store)
        by_path = {str(path): label for label, path in files.items()}
        wanted = names_of("baselines", given.get("baselines", ()))
        baselines = known_baselines([by_path.get(name, name) for name in wanted], list(files))
        return cls(files, metrics, baselines, _judge_of(workplace, given, fields), fields)

    def measured(self) -> "Measured":
        """The scores, not yet compared."""
        return self.judge.measured(self.metrics, self.files)

    def tested(self, measured: "Measured") -> "Measured":
        """The scores with the tests of their differences."""
        from hardneg.api.judging import tested
        from hardneg.formats.id_pairs import read_query_groups

        groups, by_group = None, self.fields["by_group"]
        if by_group:
            groups = self.judge.query_groups(by_group is True)
        if "query_groups" in self.fields:
            groups = read_query_groups(Path(self.fields["query_groups"]))
        level, margin = self.fields["significance_level"], self.fields["equivalence_margin"]
        return tested(measured, self.baselines, level, margin, groups)

    def evaluation(self) -> "Evaluation":
        """What the function returns; what must be known beside it goes to the log."""
        from hardneg.api.evaluation import Evaluation

        measured = self.measured()
        for note in measured.notes:
            _log.warning(note)
        reads = [*self.files.values(), *([self.judge.qrels] if isinstance(self.judge.qrels, Path) else [])]
        return Evaluation(self.tested(measured), reads)


def _judge_of(workplace: "Workplace", given: Mapping[str, Any], fields: Mapping[str, Any]) -> "Judge":
    """What runs are judged by: judgements, or those of the dataset, named or that of the first run."""
    from hardneg.api.dataset_argument import named_dataset, split_of
    from hardneg.api.judging import Judge
    from hardneg.api.qrels_argument import named_qrels
    from hardneg.api.results import source_of_runs

    qrels, level, match = named_qrels(given.get("qrels")), fields["relevance_level"], fields["answer_match"]
    dataset, split = given.get("dataset"), given.get("split")
    if dataset is not None:
        named, split = named_dataset(dataset, workplace.store), split_of(dataset, split, "test")
        return Judge(qrels, level, named, split, match, partial(_collection, named, workplace))
    workplace.refuse_settings()
    source = source_of_runs(given["runs"])
    if source is None:
        return Judge(qrels, level, None, split or "test", match, _none)
    return Judge(qrels, level, "the dataset of the runs", split or source.split, match, lambda: source.collection)


def _collection(dataset: str, workplace: "Workplace") -> "StoredCollection":
    """The stored collection, read now unless the store has it."""
    from hardneg.api.adhoc_recipe import AdhocRecipe
    from hardneg.api.single_stage import make_dataset
    from hardneg.formats.collection import StoredCollection

    recipe = AdhocRecipe("evaluate", dataset, settings=workplace.settings)
    return StoredCollection.open(make_dataset(recipe.plan(), workplace).path)


def _none() -> "StoredCollection":
    raise UsageError("{dataset}: none is named", "dataset")
