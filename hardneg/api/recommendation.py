"""What a recommendation has found: which miner, in words, as a recipe and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.api.adhoc_recipe import MINED, TRAINED
from hardneg.api.recommended_recipe import ALONE, METRIC, TRAIN_RUN, Asked
from hardneg.wording import counted


@dataclass(frozen=True)
class Recommendation:
    """A miner of a sweep, chosen.

    found: the sweep. trials: what trainings came to on the dev queries, by stage; None where none was asked for.
    steps: of these trainings.
    """

    found: Mapping[str, Any]
    trials: Mapping[str, float] | None
    steps: int | None

    @property
    def scores(self) -> list[float]:
        """Of the trainings with the best miner of each depth."""
        return [value for name, value in (self.trials or {}).items() if name != ALONE]

    @property
    def alone(self) -> bool:
        """Whether in-batch negatives alone are above all of them: then these are recommended."""
        return self.trials is not None and self.trials[ALONE] > max(self.scores)

    @property
    def place(self) -> int:
        """Of the chosen miner in the sweep: by the rule, or the best on the dev queries, of equal ones the first."""
        if self.trials is None:
            return int(self.found["chosen"])
        place: int = self.found["best_of_each_depth"][self.scores.index(max(self.scores))]
        return place

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
            f"{counted(self.steps or 0, 'step')} has the highest {METRIC} on the dev queries, of equal ones the first; "
            f"in-batch negatives are the last, the miners in this order: {said}"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        rule = {**self.found["rule"], "said": self.rule()}
        chosen = {"chosen": self.place, "in_batch_alone": self.alone, "rule": rule}
        return {**self.found, "trials": self.trials, **chosen}

    def recipe(self, asked: Asked, tree: Mapping[str, Any], facts: Mapping[str, Any], output: Path) -> str:
        """The recipe that trains with it, as text."""
        tested = "test" if facts["splits"].get("test", {}).get("queries") else asked.split
        told = {"head": "\n".join(self._head(asked, tested, output)), MINED: self.evidence()}
        told[TRAIN_RUN] = "With the scores of all known positives, which filters compare with."
        if self.trials is not None:
            told[TRAINED] = " ".join(self.tried_in_words())
        return asked.recipe(tree, self, told, tested)

    def _head(self, asked: Asked, tested: str, output: Path) -> Iterator[str]:
        from hardneg.analysis.miner_sweep import told_planted

        yield f"Negatives chosen on the queries of split {asked.split} by `hardneg recommend`"
        yield " "
        yield f"  hardneg recipe run {output}"
        yield " "
        yield told_planted(self.found)
        yield f"The rule: {self.rule()}"
        usual = " a static model's rate and decay, and" if asked.usual else ""
        yield f"Training has hardneg's defaults but for{usual} what was given by --train-option."
        if tested == asked.split:
            yield f"There is no split test: it is measured on split {tested}, by which the negatives were chosen."

    def evidence(self) -> str:
        """What the chosen miner takes, beside the top of the lists as deep as was searched."""
        top = next(
            row for row in self.found["miners"] if row["miner"] == {"name": "topk", "depth": self.found["listed"]}
        )
        said = "Of hard negatives the best" if self.alone else "Chosen"
        told = f"{said}: {_in_words(self.row)}." + ("" if top == self.row else f" Beside it, {_in_words(top)}.")
        kept = "" if self.found["kept"] else " No miner keeps both conditions of the rule: this is the nearest to them."
        return told + (kept if self.trials is None else "")

    def tried_in_words(self) -> Iterator[str]:
        """What the trainings came to."""
        trials = self.trials or {}
        yield f"{METRIC} on the dev queries after {counted(self.steps or 0, 'step')}:"
        yield f"in-batch negatives alone {trials[ALONE]:.4f},"
        rows = [self.found["miners"][place] for place in self.found["best_of_each_depth"]]
        told = [f"{_named(row)} {score:.4f}" for row, score in zip(rows, self.scores, strict=True)]
        yield ", ".join(told) + "."
        if self.alone:
            yield "No hard negatives are above in-batch ones there: these alone are recommended."


def _named(row: Mapping[str, Any]) -> str:
    from hardneg.analysis.miner_sweep import depth_of, way_of

    return f"{way_of(row)}, {depth_of(row)} a query"


def _in_words(row: Mapping[str, Any]) -> str:
    from hardneg.analysis.base import percent

    hardness = "unknown" if row["hardness"] is None else f"{row['hardness']:+.4f}"
    return (
        f"{_named(row)}: lets in {percent(row['let_in'])} of what is planted, {percent(row['planted'])} of its "
        f"negatives are planted, hardness {hardness}, {percent(row['enough'])} of the queries have enough"
    )
