"""Runs judged by files of judgements or by a dataset's, and by the answers to its questions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hardneg.evaluation.levels import known_level, known_margin
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.evaluation.metrics import Scores
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.qrels import Qrels
    from hardneg.formats.runs import Run

Note = Callable[[str], None]


@dataclass(frozen=True)
class Judge:
    """What runs are judged by: judgements or a file of them, the lowest grade that counts, a dataset.

    dataset: what it is called; None where there is none. read: reads it. match: whether answers are words, or regular
    expressions.
    """

    qrels: "Path | Qrels | None"
    level: int
    dataset: str | None
    split: str
    match: Literal["string", "regex"]
    read: "Callable[[], StoredCollection]"

    @cached_property
    def collection(self) -> "StoredCollection | None":
        """The stored collection, read now; None where no dataset is named."""
        return None if self.dataset is None else self.read()

    def grades(self) -> "Qrels":
        """The judgements that are given, or the collection's; maybe none."""
        from hardneg.formats.qrels import read_qrels

        if isinstance(self.qrels, Path):
            return read_qrels(self.qrels)
        if self.qrels is not None:
            return self.qrels
        return {} if self.collection is None else self.collection.judged(self.split)

    def query_groups(self, needed: bool) -> dict[str, str] | None:
        """The groups of the dataset's queries, or None. Raises UsageError where there are none and they are needed."""
        groups = {} if self.collection is None else self.collection.groups("query")
        if needed and not groups:
            problem = "{by_group}: no dataset with groups of queries; give {query_groups}"
            raise UsageError(problem, "by_group", "query_groups")
        return groups or None

    def measured(self, names: Sequence[str], runs: Mapping[str, Path]) -> "Measured":
        """Each run's scores by judgements and by answers, not yet compared, and what must be known beside them."""
        from hardneg.evaluation.metrics import answer_cutoffs
        from hardneg.evaluation.metrics_json import Measured

        cutoffs, notes = answer_cutoffs(names), list[str]()
        scored = self._by_answers(runs, cutoffs, notes.append)
        if by_judgements := [name for name in names if name not in cutoffs]:
            judged = self._by_judgements(runs, by_judgements, notes.append)
            scored = {label: {**scores, **scored.get(label, {})} for label, scores in judged.items()}
        scores = {label: {name: scores[name] for name in names} for label, scores in scored.items()}
        return Measured(scores, notes=tuple(dict.fromkeys(notes)))

    def _run(self, path: Path) -> "Run":
        from hardneg.formats.id_pairs import without_excluded
        from hardneg.formats.runs import read_run

        return without_excluded(read_run(path), {} if self.collection is None else self.collection.excluded())

    @property
    def _documents(self) -> int | None:
        return None if self.collection is None else len(self.collection.corpus)

    def _judgements(self) -> "Qrels":
        if self.qrels is None and self.dataset is None:
            raise UsageError("give the judgements: {qrels}, or {dataset} and {split}", "qrels", "dataset", "split")
        grades = self.grades()
        if self.qrels is None and not grades:
            raise UsageError(f"split {self.split} of {self.dataset} has no judgements; give {{qrels}}", "qrels")
        return grades

    def _by_judgements(self, runs: Mapping[str, Path], names: Sequence[str], note: Note) -> "dict[str, Scores]":
        from hardneg.evaluation.metrics import evaluate, judgement_notes, run_notes

        qrels, scores = self._judgements(), dict[str, "Scores"]()
        for label, path in runs.items():
            run = self._run(path)
            for line in run_notes(label, run, qrels, names, self._documents):
                note(line)
            scores[label] = evaluate(run, qrels, names, self.level)
        for line in judgement_notes(qrels, names, self.level):
            note(line)
        return scores

    def _by_answers(self, runs: Mapping[str, Path], cutoffs: Mapping[str, int], note: Note) -> "dict[str, Scores]":
        from hardneg.evaluation.metrics import answer_coverage, run_notes
        from hardneg.formats.answer_matching import PassageAnswers

        if not cutoffs:
            return {}
        if (collection := self.collection) is None:
            problem = f"{next(iter(cutoffs))} needs the answers of a dataset: give {{dataset}} and {{split}}"
            raise UsageError(problem, "dataset", "split")
        answers, cuts = PassageAnswers.of(collection, self.split, self.match), list(cutoffs.values())
        query_ids = answers.query_ids
        scores: dict[str, Scores] = {}
        for label, path in runs.items():
            run = self._run(path)
            scores[label] = answer_coverage(run, answers, query_ids, cuts)
            for line in run_notes(label, run, set(query_ids), [*cutoffs], self._documents):
                note(line)
        without = len(collection.queries(self.split)) - len(query_ids)
        for reason, count in {**answers.left_out, "questions without answers": without}.items():
            if count:
                note(f"{reason}: {count}")
        return scores


def tested(
    measured: "Measured", baselines: Sequence[str], level: float, margin: float, groups: Mapping[str, str] | None = None
) -> "Measured":
    """With the paired tests of the runs against the baselines, or of each with each; p below `level` is marked.

    margin: within which runs are equal. groups: of queries, by id.
    """
    from hardneg.evaluation.significance import Design, compare_all

    return replace(
        measured,
        comparisons=compare_all(measured.results, baselines, design=Design(margin, groups)),
        significance_level=known_level(level),
        equivalence_margin=known_margin(margin),
        query_groups=groups,
    )
