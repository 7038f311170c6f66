"""What a recommendation has found: which miner, in words, as a recipe and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.analysis.base import percent
from hardneg.analysis.miner_sweep import MinerSweep, depth_of, let_in_share, planted_sentence, way_of
from hardneg.api.adhoc_recipe import MINED, TRAINED
from hardneg.api.recommended_recipe import ALONE, GOALS, TRAIN_RUN, RecommendRequest
from hardneg.api.recommended_rule import ALONE_WORDS, RULE, Advice, Situation, named
from hardneg.api.recommended_trials import Trials
from hardneg.records.named_plugins import TOPK
from hardneg.records.wording import counted
from hardneg.report.table import Table


@dataclass(frozen=True)
class Recommendation:
    """A miner of a sweep, chosen.

    measured: the sweep. trials: trainings with the rows that `situation` names, and with in-batch negatives alone;
    None where none was asked for: then the rule chooses. situation: what the rule goes by. goal: what is to be good;
    None is answered for both, and the recipe is the one for the top.
    """

    measured: Mapping[str, Any]
    trials: Trials | None
    situation: Situation
    goal: str | None = None

    @property
    def steps(self) -> int | None:
        """Of the trainings that it was chosen by."""
        return None if self.trials is None else self.trials.steps

    @property
    def alone(self) -> bool:
        """Whether in-batch negatives alone are recommended: by the rule, or above all others on the dev queries."""
        return self.trials.best == ALONE if self.trials is not None else self._advice.alone

    @property
    def chosen_row(self) -> int:
        """Of the chosen miner in the sweep: by the rule, or the best on the dev queries, of equal ones the first."""
        if self.trials is None:
            return self._advice.row
        tried, means = self._tried(), self.trials.means
        return max(tried, key=lambda position: means[tried[position]])

    @property
    def row(self) -> Mapping[str, Any]:
        """What the sweep says of it."""
        row: Mapping[str, Any] = self.measured["miners"][self.chosen_row]
        return row

    def rule(self) -> str:
        """By what it was chosen, in one sentence."""
        if self.trials is None:
            return RULE
        steps, metric = counted(self.trials.steps, "step"), self.trials.metric
        return (
            "Of the best miner of each depth, the first documents and in-batch negatives alone the one whose training "
            f"of {steps} has the highest {metric} on the dev queries, of equal ones the first; in-batch negatives are "
            f"the last, the miners in this order: {self.measured['rule']['said']}"
        )

    @property
    def _advice(self) -> Advice:
        return self.situation.advice(self.goal or GOALS[0])

    def reasons(self) -> list[str]:
        """What there is to go by, and by the rule for each goal, or for the one that was named, what to train with."""
        goals = GOALS if self.goal is None else (self.goal,)
        return [f"{'; '.join(self.situation.facts())}.", *(self.situation.sentence(goal) for goal in goals)]

    def sweep(self) -> dict[str, Any]:
        """The sweep, with what was chosen in the end as the choice, and by what."""
        way = way_of(self.row)
        shown = [
            self.chosen_row if way_of(self.measured["miners"][position]) == way else position
            for position in self.measured["best_of_each_way"]
        ]
        chosen = {"chosen": self.chosen_row, "rule": {**self.measured["rule"], "said": self.rule()}}
        return {**self.measured, **chosen, "best_of_each_way": shown}

    def tables(self) -> list[Table]:
        """The best of each way with what was chosen, and the trainings."""
        measured = {**self.sweep(), **({"chosen": None} if self.alone else {})}
        tables = [MinerSweep.model_construct().tables(measured)[0]]
        if self.trials is not None:
            rows = {stage: self.measured["miners"][position] for position, stage in self._tried().items()}
            labels = {stage: (way_of(row), f"{depth_of(row):,}") for stage, row in rows.items()}
            tables.append(self.trials.table({**labels, ALONE: (ALONE_WORDS, "")}))
        return tables

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        trials = None if self.trials is None else self.trials.to_dict()
        chosen = {"trials": trials, "in_batch_alone": self.alone, "goal": self.goal}
        return {**self.sweep(), **chosen, **self.situation.to_dict()}

    def recipe(self, request: RecommendRequest, tree: Mapping[str, Any], facts: Mapping[str, Any], output: Path) -> str:
        """The recipe that trains with it, as text."""
        tested = "test" if facts["splits"].get("test", {}).get("queries") else request.split
        comments = {"head": "\n".join(self._head(request, tested, output)), MINED: self.evidence()}
        comments[TRAIN_RUN] = "With the scores of all known positives, which filters compare with."
        comments[TRAINED] = " ".join(self.tried_in_words())
        return request.recipe(tree, self, comments, tested)

    def _head(self, request: RecommendRequest, tested: str, output: Path) -> Iterator[str]:
        yield f"Negatives chosen on the queries of split {request.split} by `hardneg recommend`"
        yield " "
        yield f"  hardneg recipe run {output}"
        yield " "
        yield planted_sentence(self.measured)
        yield f"The rule: {self.rule()}"
        yield from self.reasons()
        usual = " a static model's rate and decay, and" if request.usual else ""
        yield f"Training has hardneg's defaults but for{usual} the options of training that were given."
        if tested == request.split:
            yield f"There is no split test: it is measured on split {tested}, by which the negatives were chosen."

    def evidence(self) -> str:
        """What the chosen miner takes, beside the top of the lists as deep as was searched."""
        top = next(
            row for row in self.measured["miners"] if row["miner"] == {"name": TOPK, "depth": self.measured["listed"]}
        )
        said = (
            "Chosen" if not self.alone else "Of hard negatives" if self.trials is None else "Of hard negatives the best"
        )
        sentence = f"{said}: {_in_words(self.row)}." + ("" if top == self.row else f" Beside it, {_in_words(top)}.")
        swept = self.trials is None and not self.alone and self.chosen_row == self.measured["chosen"]
        lacking = " No miner keeps all bounds of the sweep: this is the nearest to them."
        return sentence + (lacking if swept and not self.measured["kept"] else "")

    def tried_in_words(self) -> Iterator[str]:
        """What the trainings came to, and which of them are told apart; nothing where there were none."""
        if self.trials is None:
            return
        labels = {stage: named(self.measured["miners"][number]) for number, stage in self._tried().items()}
        yield from self.trials.sentences({**labels, ALONE: ALONE_WORDS})
        yield f"The recipe has {ALONE_WORDS if self.alone else named(self.row)}, which came out highest."

    def _tried(self) -> dict[int, str]:
        """The stage that trained with each miner, by the miner's position in the sweep."""
        return {position: f"{TRAINED}-{number}" for number, position in enumerate(self.situation.tried, 1)}


def _in_words(row: Mapping[str, Any]) -> str:
    hardness = "unknown" if row["hardness"] is None else f"{row['hardness']:+.4f}"
    return (
        f"{named(row)}: lets in {let_in_share(row)} of what is planted, {percent(row['planted'])} of its "
        f"negatives are planted, hardness {hardness}, {percent(row['enough'])} of the queries have enough"
    )
