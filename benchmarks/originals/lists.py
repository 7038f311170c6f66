"""Negatives that are mined, and metrics. A list that differs counts as 1."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
from originals.comparing import Differences, Item
from originals.source import take

from hardneg.evaluation.metrics import evaluate, means
from hardneg.miners.random import Sampled
from hardneg.miners.ranks import TopK
from hardneg.types import Candidates, RankedList

QUERIES = 40


def _ranked(rows: np.ndarray) -> RankedList:
    return RankedList([str(row) for row in rows], -np.arange(len(rows), dtype=np.float32))


def _candidates(query: int, listed: np.ndarray, relevant: list[int]) -> Candidates:
    ids = [str(row) for row in relevant]
    return Candidates(str(query), ids, {"run": _ranked(listed)}, [str(row) for row in range(1000)])


def _star(folder: Path) -> Iterator[Differences]:
    for depth in (5, 20, 50, 100, 200):
        lists = {query: np.random.permutation(1000)[: depth + 10] for query in range(QUERIES)}
        relevant = {query: [int(lists[query][query % (depth + 10)])] for query in range(QUERIES)}
        known = {
            "load_rank": lambda _, lists=lists: {query: rows.tolist() for query, rows in lists.items()},
            "load_rel": lambda _, relevant=relevant: relevant,
            "tqdm": lambda some, desc: some, "json": json,
        }  # fmt: skip
        (program,) = take(folder / "star" / "prepare_hardneg.py", ["gen_static_hardnegs"], known)
        with TemporaryDirectory() as place:
            output = Path(place) / "hard.json"
            program(SimpleNamespace(topk=depth, output_rank_file="", label_path="", output_hard_path=output))
            theirs = json.loads(output.read_text(encoding="utf-8"))
        asked = [_candidates(query, lists[query], relevant[query]) for query in range(QUERIES)]
        for mined in TopK(depth).mine(asked, seed=0):
            yield float([*map(int, mined.negatives)] != theirs[mined.query_id]), None


def _ance(folder: Path) -> Iterator[Differences]:
    """Of what is drawn: that as many are, and only documents that may be; of the top, that it is the same."""
    file, ids = folder / "drivers" / "run_ann_data_gen.py", np.arange(1000)
    (program,) = take(file, ["GenerateNegativePassaageID"], {"random": random, "print": lambda _: None})
    for kept in (5, 20):
        lists = np.stack([np.random.permutation(1000)[:200] for _ in range(QUERIES)])
        relevant = {query: int(lists[query, query % 30]) if query % 2 else 1000 for query in range(QUERIES)}
        asked = [_candidates(query, lists[query], [relevant[query]]) for query in range(QUERIES)]
        for top in (True, False):
            args = SimpleNamespace(ann_measure_topk_mrr=top, negative_sample=kept, rank=0)
            theirs = program(args, ids, ids, relevant, lists, set(range(QUERIES)))
            miner = TopK(kept) if top else Sampled(200, kept)
            for query, mined in enumerate(miner.mine(asked, seed=0)):
                ours, allowed = [*map(int, mined.negatives)], {*lists[query].tolist()} - {relevant[query]}
                again = [int(row) for row in theirs[query]]
                sides = all(len(set(side)) == len(side) == kept and set(side) <= allowed for side in (ours, again))
                yield float(ours != again if top else not sides), None


def _mrr(folder: Path) -> Iterator[Differences]:
    for cut in (10, 100):
        (program,) = take(folder / "msmarco_eval.py", ["compute_metrics"], {"MaxMRRRank": cut})
        for missing in (0, 5):
            lists = {query: np.random.permutation(np.arange(1, 400))[:cut] for query in range(QUERIES)}
            relevant = {query: np.random.randint(1, 400, 1 + query % 3).tolist() for query in range(QUERIES + missing)}
            theirs = program(relevant, lists)[f"MRR @{cut}"]
            run = {str(query): _ranked(rows) for query, rows in lists.items()}
            qrels = {str(query): dict.fromkeys(map(str, some), 1) for query, some in relevant.items()}
            yield abs(theirs - means(evaluate(run, qrels, [f"mrr@{cut}"]))[f"mrr@{cut}"]), None


_EVALUATION = "msmarco_eval.py: compute_metrics"
ITEMS = {
    "drhard": [
        Item("STAR's negatives", "star/prepare_hardneg.py: gen_static_hardnegs", "`topk`", _star),
        Item("MRR@10, MRR@100", _EVALUATION, "`mrr@10`, `mrr@100`", _mrr),
    ],
    "ance": [
        Item(
            "ANCE's negatives: the top; what may be drawn, and how many",
            "drivers/run_ann_data_gen.py: GenerateNegativePassaageID", "`topk`, `sampled`", _ance,
        )
    ],
    "jpq": [Item("MRR@10, MRR@100", _EVALUATION, "`mrr@10`, `mrr@100`", _mrr)],
}  # fmt: skip
