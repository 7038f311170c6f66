"""A sweep of three miners as it stands in a test, trainings by two of them, and what is recommended."""

from hardneg_advice.recommend import RecommendedNegatives
from hardneg_advice.rule import Situation, Trials
from hardneg_advice.trials import RecommendRequest


def row(miner, let_in, planted, hardness, enough=1.0, by="", ends=None):
    found = {"let_in": let_in, "planted": planted, "hardness": hardness, "enough": enough, "let_in_interval": ends}
    return {"miner": miner, "by": by, **found}


ROWS = [
    row({"name": "topk", "depth": 10}, 0.5, 0.1, -0.1),
    row({"name": "topk", "depth": 20}, 0.5, 0.01, -0.2, ends=[0.187, 0.813]),
    row({"name": "pos-percent", "share": 0.95, "depth": 20, "count": 10}, None, None, None, 0.0, "reranked"),
]
RULE = {"said": "R.", "most_planted": 0.01}
FOUND = {
    "miners": ROWS,
    "chosen": 1,
    "kept": True,
    "listed": 20,
    "best_of_each_way": [1, 2],
    "unused": [],
    "rule": RULE,
    "planted": {"kind": "judged", "queries": 9, "planted": 12},
}

RANKS = {"queries": 90, "listed": 20, "depth": 10, "median_rank": 4.0, "within": {"1": 0.3, "10": 0.6, "100": 1.0}}
RANKS |= {"above": 0.4, "nearer": 0.25, "siblings": None, "ranks": [1] * 27 + [2] * 9 + [4] * 18 + [12] * 36}
TREE = {"dataset": "pydocs", "model": {"name": "m"}, "seed": 7}
FACTS = {"splits": {"train": {"queries": 9}, "dev": {"queries": 9}}}


def situation(found=None, documents=3200, batch=32, **ranks):
    """3,200 documents in batches of 32: a batch's nearest one stands at rank 100 on average."""
    return Situation({**RANKS, **ranks}, FOUND if found is None else found, documents, batch)


def answer_of(found, tried=None, goal=None, asked=None, **ranks):
    request = asked or RecommendRequest("dev", 20, None, {}, goal=goal, usual_rates=(0.01, 0.03), bm25=True)
    return RecommendedNegatives(situation(found, **ranks), tried, request, TREE, FACTS, [])


def with_false(share):
    """The sweep, with that share of the first 10 planted."""
    return {**FOUND, "miners": [{**ROWS[0], "planted": share}, *ROWS[1:]]}


FALSE = with_false(0.6)
"""Where the sweep chooses: more than half of the first 10 are false."""


def trials(shipped, *arms, bm25=None, queries=60):
    """Scores of as many trainings around its mean at .03, a tenth less at .01."""
    added = [0.01 * (query % 11 - 5) for query in range(queries)]
    added = [value - sum(added) / queries for value in added]

    def scores(mean, turn):
        return {str(query): mean + added[query - turn] for query in range(queries)}

    measured = {"as shipped": scores(shipped, 3), **({} if bm25 is None else {"BM25": scores(bm25, 4)})}
    names = dict(zip(("in-batch", "first", "swept"), arms, strict=False))
    for turn, (name, mean) in enumerate(names.items()):
        measured |= {f"{name} at 0.03": scores(mean, turn), f"{name} at 0.01": scores(mean - 0.1, turn)}
    return Trials(measured, [*names], (0.01, 0.03), 5)
