"""Checks of mined negatives: copies of positives, likely positives, positives that the model does not find."""

import numpy as np

from hardneg.diagnosis.check_result import CheckResult
from hardneg.diagnosis.finished_run import FinishedRun
from hardneg.formats.runs import EMPTY
from hardneg.mining.choosing import SEEN_BY
from hardneg.mining.filters import MiningTexts, NearCopyFilter
from hardneg.mining.miners.selection import scores_of
from hardneg.records.types import Candidates, Negatives, RankedList

MOST_COPIES = 0.01
MOST_ABOVE = 2 / 3
"""A weak start model has many above; with 60 % mined negatives still helped (recipe `dose-start`, a static model)."""
MOST_HIDDEN = 0.5
MOST_SEEN = 0.5
_EACH = 20


def near_copies(run: FinishedRun, stage: str) -> CheckResult:
    """The share of the first 20 negatives of a query whose text nearly equals that of a positive of it."""
    mined, copies, count = run.mined(stage), 0, 0
    collection = run.collection(run.dataset_of(stage))
    texts = MiningTexts(collection, "train")
    for row in mined.negatives:
        listed = RankedList(row.negatives[:_EACH], row.scores[:_EACH])
        candidates = Candidates(row.query_id, row.positives, {"": listed}, collection.corpus.doc_ids)
        [reasons] = NearCopyFilter().reasons([candidates], texts)
        copies, count = copies + len(reasons), count + len(listed.doc_ids)
    share = copies / max(count, 1)
    return CheckResult.of(
        share > MOST_COPIES,
        f"{share:.1%} of {count:,} negatives nearly equal a positive of their query in words",
        {"share": share, "negatives": count, "copies": copies},
        "these are wrong labels: mine with the filter near-copies (`filters: [near-copies]`)",
    )


def above_positive(run: FinishedRun, stage: str) -> CheckResult:
    """The share of negatives with a higher score than the best positive of their query, where the run lists one."""
    compared, above = 0, 0
    for row, ranked in _listed(run, stage):
        best = np.nan_to_num(scores_of(row.positives, ranked), nan=-np.inf).max(initial=-np.inf)
        scores = scores_of(row.negatives, ranked)
        if np.isfinite(best):
            compared += int(np.isfinite(scores).sum())
            above += int((scores > best).sum())
    if not compared:
        return CheckResult("unknown", "no negative is in a list that has a positive too, so that none can be compared")
    share = above / compared
    return CheckResult.of(
        share > MOST_ABOVE,
        f"{share:.1%} of {compared:,} negatives score above the best positive of their query, by the run mined from",
        {"share": share, "negatives": compared, "above": above},
        "many may be relevant and not labelled: look at some with `hardneg browse`; then mine with pos-percent, "
        "max-score or denoised, deeper by a window, or have a reranker or judge filter them",
    )


def hidden_positives(run: FinishedRun, stage: str) -> CheckResult:
    """The share of queries without a positive in the list that was mined from."""
    rows, lists = _listed(run, stage), run.mined(stage).lists.values()
    depth = max((len(ranked.doc_ids) for ranked in lists), default=0)
    if not depth:
        return CheckResult("unknown", f"{stage} has no run that it mines from")
    hidden = sum(not np.isfinite(scores_of(row.positives, ranked)).any() for row, ranked in rows)
    share = hidden / max(len(rows), 1)
    return CheckResult.of(
        share > MOST_HIDDEN,
        f"{share:.1%} of {len(rows):,} training queries have no positive in the first {depth:,} of the run mined from",
        {"share": share, "queries": len(rows), "depth": depth},
        "the model is not yet mistaking these negatives for the positive: train on in-batch negatives first, or begin "
        "with a better model, and mine again from that; check that labels and documents belong together",
    )


def seen_documents(run: FinishedRun, stage: str) -> CheckResult:
    """The share of negatives that are relevant to queries of another split, as mining has counted them."""
    facts = run.artifact(stage).facts
    count = facts.get("negatives", 0)
    counts = {name.removeprefix(SEEN_BY): int(seen) for name, seen in facts.items() if name.startswith(SEEN_BY)}
    if not counts or not count:
        return CheckResult("unknown", "mining has counted no positives of other splits")
    parts = [f"{seen / count:.1%} are relevant to queries of {split}" for split, seen in counts.items()]
    return CheckResult.of(
        max(counts.values()) > MOST_SEEN * count,
        f"of {count:,} negatives {', '.join(parts)}",
        {"negatives": count, **counts},
        "training pushes these documents away, and they are what is measured: leave them out by the filter documents "
        "(`filters: [{name: documents, of: train}]`)",
    )


def _listed(run: FinishedRun, stage: str) -> list[tuple[Negatives, RankedList]]:
    mined = run.mined(stage)
    return [(row, mined.lists.get(row.query_id, EMPTY)) for row in mined.negatives]
