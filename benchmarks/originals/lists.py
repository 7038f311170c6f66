"""Negatives that are mined, and metrics. A list that differs counts as 1."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
from originals.comparing import Differences, Item
from originals.source import lines, take

from hardneg.evaluation.metrics import evaluate, means
from hardneg.mining.ranks import Sampled, TopK, Window
from hardneg.mining.thresholds import Denoised, SimAns
from hardneg.records import Candidates, RankedList

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
    inside = folder / "metric"
    for cut in (10, 100):
        (program,) = take(
            (inside if inside.exists() else folder) / "msmarco_eval.py", ["compute_metrics"], {"MaxMRRRank": cut}
        )
        for missing in (0, 5):
            lists = {query: np.random.permutation(np.arange(1, 400))[:cut] for query in range(QUERIES)}
            relevant = {query: np.random.randint(1, 400, 1 + query % 3).tolist() for query in range(QUERIES + missing)}
            (theirs,) = (value for name, value in program(relevant, lists).items() if name.startswith("MRR"))
            run = {str(query): _ranked(rows) for query, rows in lists.items()}
            qrels = {str(query): dict.fromkeys(map(str, some), 1) for query, some in relevant.items()}
            yield abs(theirs - means(evaluate(run, qrels, [f"mrr@{cut}"]))[f"mrr@{cut}"]), None


def _cort(folder: Path) -> Iterator[Differences]:
    (program,) = take(folder / "cort" / "dataloading.py", ["TripletDataset._generate_negatives"], {})
    model = SimpleNamespace(min_rank=8, max_rank=100, log=SimpleNamespace(debug=lambda _: None))
    for length in (12, 60, 100, 150):
        for query in range(QUERIES):
            listed = np.random.permutation(1000)[:length]
            relevant = [int(listed[query % length]), 1000]
            (mined,) = Window(7, 100).mine([_candidates(query, listed, relevant)], seed=0)
            theirs = program(model, relevant, query, listed.tolist())
            yield float([*map(int, mined.negatives)] != theirs), None


def _denoised(folder: Path) -> Iterator[Differences]:
    """Lists that have four confident negatives in their first 50, as many as are kept: nothing is drawn."""
    file = folder / "data_process" / "construct_marco_train_de.py"
    code = lines(file, "neg_cnt = 4", "for qid, pids")
    for query in range(QUERIES):
        listed, scores = np.random.permutation(1000)[:60], np.random.rand(60).round(2)
        scores[np.random.choice(50, 8, replace=False)] = [0.1, 0.09, 0.05, 0, 0.02, 0.03, 0.01, 0.08]
        relevant = [int(listed[query % 20])]
        utils = SimpleNamespace(
            load_corpus=lambda **_: ({}, {}, {}),
            load_pos_examples=lambda _, relevant=relevant: ({0: relevant}, {}),
            load_candidates=lambda *_, listed=listed, **__: ({0: listed.tolist()}, None),
            load_ce_score=lambda *_, scores=scores: {0: scores.tolist()},
        )
        space = {"utils": utils, "rng": random.Random(0), "recall_cands_file": "", "ce_score_file": ""}
        exec(code, space)
        order = np.argsort(-scores, kind="stable")
        ranked = RankedList([str(row) for row in listed[order]], scores[order].astype(np.float32))
        asked = replace(_candidates(query, listed, relevant), hits={"run": _ranked(listed), "scores": ranked})
        (mined,) = Denoised(depth=50, count=4, below=0.1).mine([asked], seed=0)
        yield float([*map(int, mined.negatives)] != space["neg_qp"][0]), None


def _simans(folder: Path) -> Iterator[Differences]:
    code = lines(folder / "utils" / "MARCO_until_new.py", "neg_candidates = []", "for pair in neg_pairs_list")
    for count in (5, 20, 50, 100, 200):
        scores, positive = 100 + 3 * np.random.randn(count).astype(np.float32), 101.5
        pairs = [(row, float(score)) for row, score in enumerate(scores)]
        space = {"neg_pairs_list": pairs, "pos_score": positive, "self": SimpleNamespace(tau=3), "math": math}
        exec(code, space)
        theirs, ours = (
            np.array(space["neg_scores"]),
            np.exp(SimAns(sharpness=3, form="absolute").log_odds(scores, positive)),
        )
        yield float(np.abs(theirs / theirs.sum() - ours / ours.sum()).max()), None


_EVALUATION = "msmarco_eval.py: compute_metrics"
ITEMS = {
    "drhard": [
        Item("STAR's negatives", "star/prepare_hardneg.py: gen_static_hardnegs", "`topk`", _star),
        Item("MRR@10, MRR@100", _EVALUATION, "`mrr@10`, `mrr@100`", _mrr),
    ],
    "ance": [
        Item(
            "ANCE's negatives: the top documents; which documents can be drawn, and how many",
            "drivers/run_ann_data_gen.py: GenerateNegativePassaageID", "`topk`, `sampled`", _ance,
        )
    ],
    "cort": [Item("CoRT's negatives", "cort/dataloading.py: TripletDataset._generate_negatives", "`window`", _cort)],
    "rocketqa": [
        Item("RocketQA's denoised negatives", "data_process/construct_marco_train_de.py", "`denoised`", _denoised),
        Item("MRR@10, MRR@100", f"metric/{_EVALUATION}", "`mrr@10`, `mrr@100`", _mrr),
    ],
    "simans": [Item("SimANS's sampling odds", "utils/MARCO_until_new.py: __getitem__", "`simans`", _simans)],
    "jpq": [Item("MRR@10, MRR@100", _EVALUATION, "`mrr@10`, `mrr@100`", _mrr)],
}  # fmt: skip
