"""`evaluate`: runs scored as trec_eval does, and their differences tested."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from hardneg.evaluation import LEVEL, MARGIN, known_level, known_margin
from hardneg.functions.arguments import AnyQrels, Arg, Dataset, Runs, Split, Where, spelled_out
from hardneg.records import UsageError

if TYPE_CHECKING:
    from hardneg.evaluation.metrics import Scores
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.qrels import Qrels
    from hardneg.formats.runs import Run
    from hardneg.functions.evaluation import Evaluation
    from hardneg.functions.session import Session

_log = logging.getLogger("hardneg")

METRICS = ("ndcg@10", "mrr@10", "recall@100")
RELEVANCE = Arg("The lowest grade that binary metrics take as relevant (trec_eval -l).", least=1)
EQUIVALENCE = Arg("Systems are equivalent where their means surely differ by less than this.")
_QRELS = Arg("Judgements: TREC or BEIR form, plain or gzip; else the dataset's.", cli=Path)
_METRICS = f"One or several, joined by commas; default {','.join(METRICS)}."
_GROUPS = "The same with groups from a file: a query's id, a tab and its group per line."
_BY_GROUP = "Queries come in the dataset's groups (`where_known`: if it has any), which are drawn at random."
_BASELINES = "Compare with this run only (its file's name); default: all pairs."
_DATASET = "For answer@k, and a report's texts: beir:FOLDER, or a plugin's name."

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
    from hardneg.functions.session import Session

    given = {name: value for name, value in locals().items() if name not in ("where", "Session")}
    return RunsToScore.of(Session.of(where, evaluate), given).evaluation()


@dataclass(frozen=True)
class RunsToScore:
    """Runs to score, by their labels, and by what.

    baselines: labels of the runs to compare with. qrels: judgements or a file of them, if they are not the dataset's.
    dataset: what it is called, None where there is none; read: opens its collection. fields: those of the stage
    `evaluate` that the tests take.
    """

    files: Mapping[str, Path]
    metrics: list[str]
    baselines: list[str]
    qrels: "Path | Qrels | None"
    dataset: str | None
    split: str
    read: "Callable[[], StoredCollection]"
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, session: "Session", given: Mapping[str, Any]) -> "RunsToScore":
        """What the arguments of `evaluate` ask for. Raises UsageError where one is wrong."""
        from hardneg.evaluation.metrics import answer_cutoffs, parse_metrics
        from hardneg.functions.argument_values import names_of, stage
        from hardneg.functions.dataset_argument import named_dataset, named_qrels, split_of
        from hardneg.functions.results import source_of_runs
        from hardneg.functions.run_argument import labelled_runs

        names = ("relevance_level", "significance_level", "equivalence_margin", "query_groups", "by_group")
        fields = stage("evaluate", {name: given[name] for name in (*names, "answer_match") if name in given})
        metrics = list(dict.fromkeys(names_of("metrics", given.get("metrics", ())) or METRICS))
        if others := [name for name in metrics if name not in answer_cutoffs(metrics)]:
            parse_metrics(others)
        files = labelled_runs(given["runs"], session.store)
        by_path = {str(path): label for label, path in files.items()}
        baselines = [by_path.get(name, name) for name in names_of("baselines", given.get("baselines", ()))]
        if unknown := [name for name in baselines if name not in files]:
            raise UsageError(f"baseline {unknown[0]} is not among the runs: {', '.join(files)}")
        dataset, split = given.get("dataset"), given.get("split")
        if dataset is not None:
            dataset, split = named_dataset(dataset, session.store), split_of(dataset, split, "test")
            read: Callable[[], StoredCollection] = partial(_collection, dataset, session)
        else:
            session.refuse_settings()
            source = source_of_runs(given["runs"])
            split = split or (source.split if source else "test")
            dataset, read = "the dataset of the runs" if source else None, partial(getattr, source, "collection")
        return cls(files, metrics, baselines, named_qrels(given.get("qrels")), dataset, split, read, fields)

    @cached_property
    def collection(self) -> "StoredCollection | None":
        """The stored collection, read now; None where no dataset is named."""
        return None if self.dataset is None else self.read()

    def grades(self) -> "Qrels":
        """The judgements that are given, or the collection's; maybe none."""
        from hardneg.formats.qrels import read_qrels

        if self.qrels is not None:
            return read_qrels(self.qrels) if isinstance(self.qrels, Path) else self.qrels
        return {} if self.collection is None else self.collection.judged(self.split)

    def measured(self) -> "Measured":
        """Each run's scores by judgements and by answers, not yet compared, and what must be known beside them."""
        from hardneg.evaluation.metrics import answer_cutoffs
        from hardneg.evaluation.metrics_json import Measured

        cutoffs, notes = answer_cutoffs(self.metrics), list[str]()
        by_answers = self._by_answers(cutoffs, notes) if cutoffs else {}
        others = [name for name in self.metrics if name not in cutoffs]
        by_judgements = self._by_judgements(others, notes) if others else {}
        found = {label: {**by_judgements.get(label, {}), **by_answers.get(label, {})} for label in self.files}
        scores = {label: {name: scores[name] for name in self.metrics} for label, scores in found.items()}
        return Measured(scores, notes=tuple(dict.fromkeys(notes)))

    def _runs(self, names: Sequence[str], judged: Any, notes: list[str]) -> "Iterator[tuple[str, Run]]":
        from hardneg.evaluation.metrics import run_notes
        from hardneg.formats.qrels import without_excluded
        from hardneg.formats.runs import read_run

        collection = self.collection
        excluded = {} if collection is None else collection.excluded()
        documents = None if collection is None else len(collection.corpus)
        for label, path in self.files.items():
            run = without_excluded(read_run(path), excluded)
            notes += run_notes(label, run, judged, names, documents)
            yield label, run

    def _by_judgements(self, names: Sequence[str], notes: list[str]) -> "dict[str, Scores]":
        from hardneg.evaluation.metrics import evaluate, judgement_notes

        if self.qrels is None and self.dataset is None:
            raise UsageError("give the judgements: {qrels}, or {dataset} and {split}", "qrels", "dataset", "split")
        level, qrels = self.fields["relevance_level"], self.grades()
        if self.qrels is None and not qrels:
            raise UsageError(f"split {self.split} of {self.dataset} has no judgements; give {{qrels}}", "qrels")
        scores = {label: evaluate(run, qrels, names, level) for label, run in self._runs(names, qrels, notes)}
        notes += judgement_notes(qrels, names, level)
        return scores

    def _by_answers(self, cutoffs: Mapping[str, int], notes: list[str]) -> "dict[str, Scores]":
        from hardneg.evaluation.metrics import answer_coverage
        from hardneg.formats.answer_matching import PassageAnswers

        if (collection := self.collection) is None:
            problem = f"{next(iter(cutoffs))} needs the answers of a dataset: give {{dataset}} and {{split}}"
            raise UsageError(problem, "dataset", "split")
        answers = PassageAnswers.of(collection, self.split, self.fields["answer_match"])
        query_ids, cuts = answers.query_ids, list(cutoffs.values())
        runs = self._runs([*cutoffs], set(query_ids), notes)
        scores = {label: answer_coverage(run, answers, query_ids, cuts) for label, run in runs}
        unanswered = len(collection.queries(self.split)) - len(query_ids)
        left_out = {**answers.left_out, "questions without answers": unanswered}
        notes += [f"{reason}: {count}" for reason, count in left_out.items() if count]
        return scores

    def tested(self, measured: "Measured") -> "Measured":
        """The scores with the paired tests of the runs against the baselines, or of each with each."""
        from hardneg.evaluation.significance import Design, compare_all
        from hardneg.formats.qrels import read_query_groups

        groups, by_group = None, self.fields["by_group"]
        if "query_groups" in self.fields:
            groups = read_query_groups(Path(self.fields["query_groups"]))
        elif by_group:
            groups = (None if self.collection is None else self.collection.groups("query")) or None
            if by_group is True and groups is None:
                problem = "{by_group}: no dataset with groups of queries; give {query_groups}"
                raise UsageError(problem, "by_group", "query_groups")
        margin = self.fields["equivalence_margin"]
        return replace(
            measured,
            comparisons=compare_all(measured.results, self.baselines, design=Design(margin, groups)),
            significance_level=known_level(self.fields["significance_level"]),
            equivalence_margin=known_margin(margin),
            query_groups=groups,
        )

    def evaluation(self) -> "Evaluation":
        """What the function returns; what must be known beside it goes to the log."""
        from hardneg.functions.evaluation import Evaluation

        measured = self.measured()
        for note in measured.notes:
            _log.warning(note)
        reads = [*self.files.values(), *([self.qrels] if isinstance(self.qrels, Path) else [])]
        return Evaluation(self.tested(measured), reads)


def _collection(dataset: str, session: "Session") -> "StoredCollection":
    """The stored collection, read now unless the store has it."""
    from hardneg.formats.collection import StoredCollection
    from hardneg.functions.adhoc_recipe import AdhocRecipe
    from hardneg.functions.content_store import make_dataset

    recipe = AdhocRecipe("evaluate", dataset, settings=session.settings)
    return StoredCollection.open(make_dataset(recipe.plan(), session).path)
