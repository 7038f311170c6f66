"""How far each way of choosing negatives stays below the best arm that was trained, on test queries.

    hardneg recommend --dataset beir:FOLDER --model NAME --train 0 --json > answer.json
    hardneg recipe run dose-depth --preset full --set dataset=beir:FOLDER --output runs/depth
    cd plugins/hardneg-advice/benchmarks
    python recommend_regret.py medquad=answer.json,runs/depth,runs/refresh pycode=other.json,runs/siblings

After each name: what `recommend` answered without a training, and with trainings if there is such an answer, and
finished run folders of the same test queries, whose rows are named as those of the recipes dose-* (in-batch, random,
top 10, ranks 11-50).
Regret is the best row's mean less that of the policy's row, whose standard error over seeds follows; the best row is
known after the runs, so regrets are too large rather than too small. A policy whose row was not trained has none: the
cell names the row. In bold: the whole 95 % interval over queries and seeds is above .01.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg_advice.miner_sweep import TOPK, WINDOW, ChoiceRule, MinerEvidence

from hardneg.evaluation.metrics import Scores
from hardneg.evaluation.two_level import SeedScores
from hardneg.records.errors import DataError
from hardneg.records.layout import METRICS

BOUND = 0.01
GOALS = {"mrr@10": "top", "recall@100": "recall"}
FIXED = {
    "top 10": "top 10",
    "top 20": "top 20",
    "top 200": "top 200",
    "51-200": "ranks 51-200",
    "random": "random",
    "in-batch": "in-batch",
}
RULES = ("recommend", "recommend before", "--train")


def row_of(miner: Mapping[str, Any]) -> str:
    """What the recipes dose-* call the row of a miner."""
    if miner["name"] == WINDOW:
        return f"ranks {miner['skip'] + 1}-{miner['depth']}"
    if miner["name"] == TOPK:
        return f"top {miner['depth']}"
    return " ".join(str(value) for value in miner.values())


def swept_choice(rows: Sequence[Mapping[str, Any]]) -> int:
    """What `recommend` chose before it had conditions: the miner that the sweep's bounds leave."""
    names = ("let_in", "planted", "hardness", "enough", "negatives")
    return ChoiceRule().order([MinerEvidence(*(row[name] for name in names)) for row in rows])[0]


def asked_rows(answers: Sequence[Mapping[str, Any]], goal: str) -> dict[str, str]:
    """By policy of `recommend` the row that it asks for."""
    rows = {}
    for answer in answers:
        miners = answer["miners"]
        if answer["trials"] is not None:
            rows["--train"] = "in-batch" if answer["in_batch_alone"] else row_of(miners[answer["chosen"]]["miner"])
            continue
        advice = answer["without_training"][goal]
        rows["recommend"] = "in-batch" if advice["alone"] else row_of(miners[advice["row"]]["miner"])
        rows["recommend before"] = row_of(miners[swept_choice(miners)]["miner"])
    return rows


@dataclass(frozen=True)
class Trained:
    """Rows of run folders that have seeds. results: scores by row, means over seeds; by_seed: those of each seed.

    groups: those of the queries, where they come in groups.
    """

    results: Mapping[str, Scores]
    by_seed: Mapping[str, Mapping[int, Scores]]
    groups: Mapping[str, str] | None = None

    @classmethod
    def read(cls, folders: Sequence[Path]) -> "Trained":
        """Raises DataError where two folders have other test queries, or none has several seeds."""
        results: dict[str, Scores] = {}
        by_seed: dict[str, dict[int, Scores]] = {}
        groups: Mapping[str, str] | None = None
        for folder in folders:
            content = json.loads((folder / METRICS).read_text("utf-8"))
            groups = content.get("query_groups", groups)
            for row, seeds in content["per_seed"].items():
                scores = content["per_query"][row]
                first = next(iter(results.values()), scores)
                if any(scores[metric].keys() != first[metric].keys() for metric in scores.keys() & first.keys()):
                    raise DataError(f"{folder}: other test queries than {folders[0]}; give folders of one collection")
                results.setdefault(row, scores)
                by_seed.setdefault(row, {int(seed): each for seed, each in seeds.items()})
        if not results:
            raise DataError(f"{', '.join(map(str, folders))}: no row has several seeds")
        return cls(results, by_seed, groups)

    def regrets(self, metric: str) -> tuple[str, dict[str, str]]:
        """The best row, and the cell of each."""
        scores = SeedScores.of(metric, self.results, self.by_seed, groups=self.groups)
        means = {row: float(table.mean()) for row, table in scores.tables.items()}
        best = max(means, key=lambda row: means[row])
        return f"{best} {shown(means[best])}", {row: cell(scores, best, row) for row in means}


def cell(scores: SeedScores, best: str, row: str) -> str:
    if row == best:
        return shown(0.0)
    difference = scores.compared(best, row)
    text = f"{shown(difference.mean)} ± {shown(difference.seed_variance**0.5)}"
    interval = difference.interval
    return f"**{text}**" if interval is not None and interval.low > BOUND else text


def shown(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def table(collections: Mapping[str, tuple[Sequence[Any], Trained]], metric: str) -> Iterator[str]:
    """A row a collection: the best row, and the regret of each policy."""
    heads = ["collection", "best", *RULES, *FIXED]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for name, (answers, trained) in collections.items():
        best, cells = trained.regrets(metric)
        asked = asked_rows(answers, GOALS[metric])
        rules = [
            "no answer" if rule not in asked else f"{asked[rule]}: {cells.get(asked[rule], 'not run')}"
            for rule in RULES
        ]
        yield f"| {' | '.join([name, best, *rules, *(cells.get(row, 'not run') for row in FIXED.values())])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Regrets of ways to choose negatives.")
    parser.add_argument("collections", nargs="+", help="NAME=ANSWER.json,FOLDER,...")
    collections = {}
    for argument in parser.parse_args().collections:
        name, _, listed = argument.partition("=")
        paths = [Path(path) for path in listed.split(",")]
        answers = [json.loads(path.read_text("utf-8")) for path in paths if path.suffix == ".json"]
        collections[name] = answers, Trained.read([path for path in paths if path.suffix != ".json"])
    for metric in GOALS:
        print(f"{metric}\n")
        print("\n".join(table(collections, metric)), end="\n\n")


if __name__ == "__main__":
    main()
