"""Runs judged by files of judgements or by a dataset's, and by the answers to its questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.cli.adhoc_recipe import stored_dataset
from hardneg.cli.console import say
from hardneg.errors import UsageError
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.data.collection import StoredCollection
    from hardneg.data.qrels import Qrels
    from hardneg.data.runs import Run
    from hardneg.evaluation.metrics import Scores
    from hardneg.evaluation.metrics_json import Measured

_COMPILE_NOTE_SECONDS = 3.0

Note = Callable[[str], None]


def _to_stderr(note: str) -> None:
    say(note, err=True)


@dataclass(frozen=True)
class Judge:
    """What runs are judged by: a file of judgements, the lowest grade that counts, a dataset with options and store."""

    qrels: Path | None
    level: int
    dataset: str | None
    split: str
    match: Literal["string", "regex"]
    settings: Sequence[str]
    store: Path | None

    def collection(self, command: str) -> "StoredCollection | None":
        """The stored collection, read now unless it is in the store; None where no dataset is named."""
        from hardneg.data.collection import StoredCollection

        if self.dataset is None:
            return None
        recipe = AdhocRecipe(command, self.dataset, settings=self.settings)
        return StoredCollection.open(stored_dataset(recipe, self.store).path)

    def grades(self, collection: "StoredCollection | None") -> "Qrels":
        """The judgements that are given, or the collection's; maybe none."""
        from hardneg.data.qrels import read_qrels

        if self.qrels is not None:
            return read_qrels(self.qrels)
        return {} if collection is None else collection.qrels(self.split)

    def measured(
        self,
        names: Sequence[str],
        labels: Mapping[Path, str],
        collection: "StoredCollection | None",
        note: Note = _to_stderr,
    ) -> "Measured":
        """Each run's scores by judgements and by answers, not yet compared; `note` is told what is left out."""
        from hardneg.evaluation.metrics import answer_cutoffs
        from hardneg.evaluation.metrics_json import Measured

        cutoffs = answer_cutoffs(names)
        found = self._by_answers(labels, cutoffs, collection, note)
        if by_judgements := [name for name in names if name not in cutoffs]:
            judged = _measure(self._judgements(collection), labels, by_judgements, self.level, note)
            found = {label: {**scores, **found.get(label, {})} for label, scores in judged.items()}
        return Measured({label: {name: scores[name] for name in names} for label, scores in found.items()})

    def _judgements(self, collection: "StoredCollection | None") -> "Qrels":
        if self.qrels is None and collection is None:
            raise UsageError("give the judgements: --qrels FILE, or --dataset NAME:SOURCE and --split NAME")
        grades = self.grades(collection)
        if self.qrels is None and not grades:
            raise UsageError(f"split {self.split} of {self.dataset} has no judgements; give --qrels FILE")
        return grades

    def _by_answers(
        self, labels: Mapping[Path, str], cutoffs: Mapping[str, int], collection: "StoredCollection | None", note: Note
    ) -> "dict[str, Scores]":
        from hardneg.data.answer_matching import PassageAnswers
        from hardneg.data.runs import read_run
        from hardneg.evaluation.metrics import answer_coverage

        if not cutoffs:
            return {}
        if collection is None:
            raise UsageError(f"{next(iter(cutoffs))} needs the answers of a dataset: give --dataset and --split")
        answers, cuts = PassageAnswers.of(collection, self.split, self.match), list(cutoffs.values())
        asked = answers.query_ids
        found = {label: answer_coverage(read_run(path), answers, asked, cuts) for path, label in labels.items()}
        without = len(collection.queries(self.split)) - len(asked)
        for reason, count in {**answers.left_out, "questions without answers": without}.items():
            if count:
                note(f"{reason}: {count}")
        return found


def _measure(
    qrels: "Qrels", labels: Mapping[Path, str], names: list[str], level: int, note: Note
) -> "dict[str, Scores]":
    """Each run's scores by metric and query; `note` is told what is left out."""
    from hardneg.data.runs import read_run
    from hardneg.evaluation.metrics import evaluate, warm_up

    found: dict[str, Scores] = {}
    for path, label in labels.items():
        run = read_run(path)
        for line in _coverage_notes(label, run, qrels):
            note(line)
        if not found:
            with _compile_note():
                warm_up(names)
        found[label] = evaluate(run, qrels, names, level)
    return found


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


def tested(measured: "Measured", baselines: Sequence[str]) -> "Measured":
    """With the paired tests of the runs against the baselines, or of each with each."""
    from dataclasses import replace

    from hardneg.evaluation.significance import compare_all

    return replace(measured, comparisons=compare_all(measured.results, baselines))
