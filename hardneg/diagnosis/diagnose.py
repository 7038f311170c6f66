"""`hardneg.diagnose`: all checks of a finished run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import file_path
from hardneg.api.workplace import usual_store
from hardneg.diagnosis.data import (
    above_positive,
    cut_texts,
    hidden_positives,
    near_copies,
    seen_documents,
    shared_queries,
    training_sets,
    unused_prompts,
)
from hardneg.diagnosis.finished_run import CheckResult, FinishedRun
from hardneg.diagnosis.training import collapse, learning_curve, outcome, trained_indexes, trained_rows
from hardneg.encoders.spec import SIDES
from hardneg.records.errors import HardnegError
from hardneg.verbs.mine import Mine
from hardneg.verbs.shared.training_options import EncoderLearning


@dataclass(frozen=True)
class Check:
    """One check. subjects: what of a run it is made of, one result each; lacking: why there may be none."""

    name: str
    find: Callable[[FinishedRun, Any], CheckResult]
    subjects: Callable[[FinishedRun], Sequence[str]]
    lacking: str = ""

    def results(self, run: FinishedRun) -> Iterator[CheckResult]:
        """One a subject, unknown where something that it reads is missing or damaged."""
        subjects = self.subjects(run)
        if not subjects:
            yield CheckResult("unknown", self.lacking, check=self.name)
        for subject in subjects:
            try:
                result = self.find(run, subject)
            except (HardnegError, OSError) as error:
                result = CheckResult("unknown", f"could not be checked: {error}")
            yield replace(result, check=self.name, subject=subject)


_NO_NEGATIVES = "the recipe has no stage that mines"
_mined, _trainings = methodcaller("stages", Mine), methodcaller("stages", EncoderLearning)
CHECKS = (
    Check("outcome", outcome, trained_rows, "the recipe evaluates no model that it trains"),
    Check("near copies", near_copies, _mined, _NO_NEGATIVES),
    Check("above the positive", above_positive, _mined, _NO_NEGATIVES),
    Check("hidden positives", hidden_positives, _mined, _NO_NEGATIVES),
    Check("seen documents", seen_documents, _mined, _NO_NEGATIVES),
    Check("shared queries", shared_queries, training_sets),
    Check("texts cut", cut_texts, lambda run: SIDES),
    Check("prompts", unused_prompts, lambda run: [""]),
    Check("learning curve", learning_curve, _trainings, "the recipe trains no encoder"),
    Check("collapse", collapse, trained_indexes, "the recipe encodes no index with a model that it trains"),
)


@dataclass(frozen=True)
class Diagnosis:
    """What all checks say of a run, in their order."""

    results: tuple[CheckResult, ...]

    @property
    def suspect(self) -> tuple[CheckResult, ...]:
        """Those that may be why."""
        return tuple(result for result in self.results if result.state == "suspect")

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        return {"results": [asdict(result) for result in self.results]}


def diagnose(folder: str | Path, store: str | Path | None = None) -> Diagnosis:
    """Checks why the training of a finished run did not help, or made things worse; nothing is written.

    Args:
        folder: the run folder of a finished recipe.
        store: where its artifacts are; by default the usual store.

    Raises:
        DataError: it is no run folder, or its lock file is damaged.
        RecipeError: the recipe is not one of this hardneg's.
    """
    run = FinishedRun.open(file_path(folder, "folder"), usual_store(store))
    return Diagnosis(tuple(result for check in CHECKS for result in check.results(run)))
