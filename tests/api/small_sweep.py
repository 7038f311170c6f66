"""A sweep of three miners as it stands in a test, trainings by two of them, and what is recommended."""

from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_rule import Situation
from hardneg.api.recommended_trials import Trials, in_order


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
    "best_of_each_depth": [1, 0],
    "best_of_each_way": [1, 2],
    "rule": RULE,
    "planted": {"kind": "judged", "queries": 9, "planted": 12},
}

RANKS = {"queries": 9, "listed": 20, "depth": 10, "median_rank": 4.0, "within": {"1": 0.3, "10": 0.6, "100": 1.0}}
RANKS |= {"above": 0.4, "nearer": 0.25, "siblings": None, "ranks": [1, 4, 12]}


def situation(found=None, documents=3200, batch=32, **ranks):
    """3,200 documents in batches of 32: a batch's nearest one stands at rank 100 on average."""
    return Situation({**RANKS, **ranks}, FOUND if found is None else found, documents, batch)


def answer_of(found, tried=None, goal=None, **ranks):
    return Recommendation(found, tried, situation(found, **ranks), goal)


def with_false(share):
    """The sweep, with that share of the first 10 planted."""
    return {**FOUND, "miners": [{**ROWS[0], "planted": share}, *ROWS[1:]]}


FALSE = with_false(0.6)
"""Where the sweep chooses: more than half of the first 10 are false."""


def trials(alone, first, second):
    """Scores of ten queries by each training, around its mean."""
    added = [0.01 * query for query in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)]
    scores = {
        name: {str(query): mean + added[query - turn] for query in range(10)}
        for turn, (name, mean) in enumerate({"in-batch": alone, "model-1": first, "model-2": second}.items())
    }
    return Trials(in_order(scores), 5)
