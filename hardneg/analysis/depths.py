"""What runs have found by a depth, and what the size of vectors does to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.data.qrels import Qrels
from hardneg.data.runs import Run

DEPTHS = (100, 200, 1000)


def depths(runs: Mapping[str, Run], qrels: Qrels, cuts: Sequence[int], level: int = 1) -> dict[str, Any]:
    """By label: `recall` at each of `cuts`, in their order, and `ndcg` at the deepest; means over judged queries.

    Grades from `level` up are relevant to recall; nDCG takes grades as they are.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, table 2.
    """
    from hardneg.evaluation.metrics import evaluate, means

    whole, names = f"ndcg@{max(cuts)}", [f"recall@{cut}" for cut in cuts]
    found = {}
    for label, run in runs.items():
        values = means(evaluate(run, qrels, [whole, *names], level))
        found[label] = {"recall": [values[name] for name in names], "ndcg": values[whole]}
    return {"depths": list(cuts), "relevance_level": level, "runs": found}


def dimensions(series: Mapping[str, Mapping[int, Run]], qrels: Qrels, metric: str, level: int = 1) -> dict[str, Any]:
    """By label, a metric of the run of each size of vectors, by rising size: [[size, mean], ...].

    Raises:
        UsageError: the metric is unknown.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 4.1, the representation size e.
    """
    from hardneg.evaluation.metrics import evaluate, means

    found = {
        label: [[size, means(evaluate(runs[size], qrels, [metric], level))[metric]] for size in sorted(runs)]
        for label, runs in series.items()
    }
    return {"metric": metric, "relevance_level": level, "runs": found}
