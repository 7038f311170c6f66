"""Runs judged by a dataset: by its judgements, and by the answers to its questions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.data.collection import StoredCollection
    from hardneg.data.qrels import Qrels
    from hardneg.evaluation.metrics import Scores


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
        from hardneg.cli import adhoc_recipe
        from hardneg.cli.options import open_store
        from hardneg.data.collection import StoredCollection

        if self.dataset is None:
            return None
        made = adhoc_recipe.make_dataset(command, self.dataset, self.settings, open_store(self.store))
        return StoredCollection.open(made.path)

    def grades(self, collection: "StoredCollection | None") -> "Qrels":
        """The judgements that are given, or the collection's; maybe none."""
        from hardneg.data.qrels import read_qrels

        if self.qrels is not None:
            return read_qrels(self.qrels)
        return {} if collection is None else collection.qrels(self.split)


def judgements(judge: Judge, collection: "StoredCollection | None") -> Path:
    """The file of judgements that is given, or the collection's."""
    if judge.qrels is not None:
        return judge.qrels
    if collection is None:
        raise UsageError("give the judgements: --qrels FILE, or --dataset NAME:SOURCE and --split NAME")
    if not collection.qrels(judge.split):
        raise UsageError(f"split {judge.split} of {judge.dataset} has no judgements; give --qrels FILE")
    return collection.folder / "qrels" / f"{judge.split}.txt"


def covered(
    collection: "StoredCollection | None",
    judge: Judge,
    labels: Mapping[Path, str],
    cutoffs: Mapping[str, int],
    note: Callable[[str], None],
) -> "dict[str, Scores]":
    """The scores by `answer@k` of each run, by its label; `note` is told what is left out."""
    from hardneg.data.answer_matching import PassageAnswers
    from hardneg.data.runs import read_run
    from hardneg.evaluation.answer_coverage import answer_coverage

    if not cutoffs:
        return {}
    if collection is None:
        raise UsageError(f"{next(iter(cutoffs))} needs the answers of a dataset: give --dataset and --split")
    answers = PassageAnswers.of(collection, judge.split, judge.match)
    asked = answers.query_ids
    found = {
        label: answer_coverage(read_run(path), answers, asked, list(cutoffs.values())) for path, label in labels.items()
    }
    without = len(collection.queries(judge.split)) - len(asked)
    for reason, count in {**answers.left_out, "questions without answers": without}.items():
        if count:
            note(f"{reason}: {count}")
    return found
