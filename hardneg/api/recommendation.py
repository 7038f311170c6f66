"""What a recommendation has found: which miner, in words, as a recipe and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.analysis.base import percent
from hardneg.analysis.miner_sweep import MinerSweep, depth_of, told_let_in, told_planted, way_of
from hardneg.api.adhoc_recipe import MINED, TRAINED
from hardneg.api.recommended_recipe import ALONE, METRIC, TRAIN_RUN, Asked
from hardneg.api.recommended_trials import Trials
from hardneg.records.wording import counted
from hardneg.report.table import Table

_ALONE = "in-batch negatives alone"


@dataclass(frozen=True)
class Recommendation:
    """A miner of a sweep, chosen.

    found: the sweep. trials: trainings with the best miner of each depth, and with in-batch negatives alone; None where
    none was asked for.
    """

    found: Mapping[str, Any]
    trials: Trials | None

    @property
    def steps(self) -> int | None:
        """Of the trainings that it was chosen by."""
        return None if self.trials is None else self.trials.steps

    @property
    def alone(self) -> bool:
        """Whether in-batch negatives alone are above all of them: then these are recommended."""
        return self.trials is not None and self.trials.best == ALONE

    @property
    def place(self) -> int:
        """Of the chosen miner in the sweep: by the rule, or the best on the dev queries, of equal ones the first."""
        if self.trials is None:
            return int(self.found["chosen"])
        tried, means = self._tried(), self.trials.means
        return max(tried, key=lambda place: means[tried[place]])

    @property
    def row(self) -> Mapping[str, Any]:
        """What the sweep says of it."""
        row: Mapping[str, Any] = self.found["miners"][self.place]
        return row

    def rule(self) -> str:
        """By what it was chosen, in one sentence."""
        said = str(self.found["rule"]["said"])
        if self.trials is None:
            return said
        return (
            "Of the best miner of each depth and in-batch negatives alone the one whose training of "
            f"{counted(self.trials.steps, 'step')} has the highest {METRIC} on the dev queries, of equal ones the "
            f"first; in-batch negatives are the last, the miners in this order: {said}"
        )

    def sweep(self) -> dict[str, Any]:
        """The sweep, with what was chosen in the end as the choice, and by what."""
        way = way_of(self.row)
        shown = [
            self.place if way_of(self.found["miners"][place]) == way else place
            for place in self.found["best_of_each_way"]
        ]
        chosen = {"chosen": self.place, "rule": {**self.found["rule"], "said": self.rule()}}
        return {**self.found, **chosen, "best_of_each_way": shown}

    def tables(self) -> list[Table]:
        """The best of each way with what was chosen, and the trainings."""
        found = {**self.sweep(), **({"chosen": None} if self.alone else {})}
        tables = [MinerSweep.model_construct().tables(found)[0]]
        if self.trials is not None:
            rows = {stage: self.found["miners"][place] for place, stage in self._tried().items()}
            told = {stage: (way_of(row), f"{depth_of(row):,}") for stage, row in rows.items()}
            tables.append(self.trials.table({**told, ALONE: (_ALONE, "")}))
        return tables

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        trials = None if self.trials is None else self.trials.to_dict()
        return {**self.sweep(), "trials": trials, "in_batch_alone": self.alone}

    def recipe(self, asked: Asked, tree: Mapping[str, Any], facts: Mapping[str, Any], output: Path) -> str:
        """The recipe that trains with it, as text."""
        tested = "test" if facts["splits"].get("test", {}).get("queries") else asked.split
        told = {"head": "\n".join(self._head(asked, tested, output)), MINED: self.evidence()}
        told[TRAIN_RUN] = "With the scores of all known positives, which filters compare with."
        told[TRAINED] = " ".join(self.tried_in_words())
        return asked.recipe(tree, self, told, tested)

    def _head(self, asked: Asked, tested: str, output: Path) -> Iterator[str]:
        yield f"Negatives chosen on the queries of split {asked.split} by `hardneg recommend`"
        yield " "
        yield f"  hardneg recipe run {output}"
        yield " "
        yield told_planted(self.found)
        yield f"The rule: {self.rule()}"
        usual = " a static model's rate and decay, and" if asked.usual else ""
        yield f"Training has hardneg's defaults but for{usual} the options of training that were given."
        if tested == asked.split:
            yield f"There is no split test: it is measured on split {tested}, by which the negatives were chosen."

    def evidence(self) -> str:
        """What the chosen miner takes, beside the top of the lists as deep as was searched."""
        top = next(
            row for row in self.found["miners"] if row["miner"] == {"name": "topk", "depth": self.found["listed"]}
        )
        said = "Of hard negatives the best" if self.alone else "Chosen"
        told = f"{said}: {_in_words(self.row)}." + ("" if top == self.row else f" Beside it, {_in_words(top)}.")
        kept = "" if self.found["kept"] else " No miner keeps all conditions of the rule: this is the nearest to them."
        return told + (kept if self.trials is None else "")

    def tried_in_words(self) -> Iterator[str]:
        """What the trainings came to, and which of them are told apart; nothing where there were none."""
        if self.trials is None:
            return
        labels = {stage: _named(self.found["miners"][place]) for place, stage in self._tried().items()}
        yield from self.trials.told({**labels, ALONE: _ALONE})
        yield f"The recipe has {_ALONE if self.alone else _named(self.row)}, which came out highest."

    def _tried(self) -> dict[int, str]:
        """The stage that trained with each miner, by the miner's place in the sweep."""
        return {place: f"{TRAINED}-{number}" for number, place in enumerate(self.found["best_of_each_depth"], 1)}


def _named(row: Mapping[str, Any]) -> str:
    return f"{way_of(row)}, {depth_of(row)} a query"


def _in_words(row: Mapping[str, Any]) -> str:
    hardness = "unknown" if row["hardness"] is None else f"{row['hardness']:+.4f}"
    return (
        f"{_named(row)}: lets in {told_let_in(row)} of what is planted, {percent(row['planted'])} of its "
        f"negatives are planted, hardness {hardness}, {percent(row['enough'])} of the queries have enough"
    )
