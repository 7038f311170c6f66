"""Small files and a held index, of which every analysis can be made."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from hardneg.analysis.base import Files, System
from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.thresholds import Denoised
from hardneg.records import Candidates, Hits, Negatives, RankedList
from hardneg.testing import AnalysisTests

IDS = [f"d{row}" for row in range(8)]
VECTORS = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)


class Vectors:
    """An index that is held."""

    def search(self, queries: np.ndarray, k: int) -> Any:
        order = np.argsort(-(queries @ VECTORS.T), axis=1)[:, :k]
        return Hits(order, np.take_along_axis(queries @ VECTORS.T, order, 1))

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        return VECTORS[rows]


class Small(Files):
    """Files, and an index and a model that are held."""

    def system(self, index: str, model: str) -> System:
        def rows(wanted: Any) -> np.ndarray:
            return np.array([IDS.index(doc_id) for doc_id in wanted], np.int64)

        return System(Vectors(), IDS, rows, lambda texts: VECTORS[: len(texts)])


def write_all(folder: Path) -> None:
    scores = np.array([3, 2, 1], np.float32)
    for name, ids in (("a", ["d0", "d1", "d2"]), ("b", ["d1", "d0", "d2"])):
        write_run(folder / f"{name}.trec", [(query_id, RankedList(ids, scores)) for query_id in ("q1", "q2")])
    (folder / "qrels.txt").write_text("q1 0 d0 1\nq2 0 d1 1\nq2 0 d2 1\n")
    (folder / "hidden.txt").write_text("q1 0 d2 1\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two"}\n')
    hits = {name: RankedList(["d0", "d1", "d2"], scores / 4) for name in ("run", "scores")}
    mined = Denoised(count=1).mine([Candidates("q1", ["d0"], hits, [])], seed=0)
    write_negatives(folder / "negatives.arrow", recorded(mined, folder / "dropped.arrow"))
    write_negatives(folder / "mined.arrow", [Negatives("q1", ["d0"], ["d1", "d2"], np.zeros(2, np.float32))])
    records = [
        {"step": step, "loss": 1.0, "gradient_norms": {"all": 1.0}, "drift": {"overlap": 0.5}, "dev": {"mrr@10": 0.1}}
        for step in (1, 2)
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_metrics(folder / "metrics.json", Measured({"A": {"mrr@10": {"q1": 0.5, "q2": 1.0}}}))
    (folder / "index").mkdir()
    (folder / "index" / "docid").write_text("".join(f"{doc_id}\n" for doc_id in IDS))
    (folder / "index" / "index").write_bytes(b"0" * 100)


class OfSmallFiles(AnalysisTests):
    def inputs(self, asked: Any, folder: Path) -> Files:
        if not (folder / "index").exists():
            write_all(folder)
        named = {path: self._found(folder, name) for path, name, _ in asked.references()}
        stages = {
            "trained": ("model", {"seconds": 2.0, "steps": 4, "usage": {"device": "cpu", "peak_memory": 10**9}}),
            "indexed": ("index", {"seconds": 1.0, "passages": 8}),
        }
        given = {"judged": "qrels.txt", "topics": "queries.jsonl", "hidden": "hidden.txt"}
        return Small(named, stages=stages, **{name: folder / file for name, file in given.items()})

    def _found(self, folder: Path, name: str) -> str:
        return str(folder / name) if (folder / name).exists() else name
