"""Programs that open an index in Pyserini: their hits are those of hardneg."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import plan_in

from hardneg.formats.runs import read_run
from hardneg.integrations.pyserini import openings
from hardneg.recipes import Options, Watcher, execute, publish
from hardneg.store import Store
from tests.tiny import tiny_encoder

pytestmark = pytest.mark.slow

_DEPTH = 10
_DENSE: dict[str, dict[str, Any]] = {
    "flat": {},
    "fp16": {},
    "sq8": {},
    "binary": {},
    "pq": {"subvectors": 8},
    "opq-pq": {"subvectors": 8},
    "ivf-flat": {"lists": 4, "nprobe": 2},
    "ivfpq": {"lists": 4, "nprobe": 2, "subvectors": 8},
    "hnsw": {"m": 8},
}
_WORDS = "river engine violin tensor garden planet bridge copper falcon harbor old blue fast quiet heavy bright"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """A finished recipe of dense vectors with its store."""
    folder = tmp_path_factory.mktemp("lines")
    data = _collection(folder / "data")
    dense = {"vectors": {"stage": "encode"}, "segments": {"stage": "encode", "segments": {"length": 6, "count": 3}}}
    for name, options in _DENSE.items():
        dense[f"index-{name}"] = {"stage": "index", "backend": {"name": name, **options}, "vectors": "vectors"}
    dense["bm25"] = {"stage": "index", "backend": {"name": "bm25", "k1": 1.2, "b": 0.7}}
    model = {"name": str(tiny_encoder(folder / "dense")), "query_length": 5, "query_prompt": "query: "}
    return {"dense": _finish(folder / "d", data, model, dense)}


@pytest.fixture(scope="module")
def programs(runs: dict[str, tuple[Path, Path]]) -> dict[str, str]:
    """The printed lines of each index."""
    return {name: text for out, store in runs.values() for name, text in openings(out, Store(store))}


def _collection(folder: Path) -> Path:
    draw, words = np.random.default_rng(0), _WORDS.split()
    texts = [" ".join(draw.choice(words, draw.integers(4, 14))) for _ in range(600)]
    (folder / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": f"d{row}", "title": "", "text": text}) for row, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    asked = [json.dumps({"_id": f"q{row}", "text": " ".join(draw.choice(words, 7))}) for row in range(8)]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n")
    lines = "".join(f"q{row}\td{row}\t1\n" for row in range(8))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def _finish(folder: Path, data: Path, model: dict[str, Any], indexes: dict[str, Any]) -> tuple[Path, Path]:
    searches = {f"{name}-run": {"stage": "search", "index": name, "depth": _DEPTH} for name in indexes}
    tree = {"dataset": f"beir:{data}", "model": model, "stages": {**indexes, **searches}}
    folder.mkdir()
    plan = plan_in(folder, tree)
    store = Store(folder / "store")
    publish(plan, execute(plan, store, Options(device="cpu"), Watcher()).artifacts, store, folder / "out")
    return folder / "out", store.root


def _asked(run: tuple[Path, Path], stage: str) -> Iterator[tuple[str, Any]]:
    texts = {row["_id"]: row["text"] for row in map(json.loads, (run[0].parents[1] / "data/queries.jsonl").open())}
    for query_id, ranked in read_run(run[0] / "runs" / f"{stage}-run.trec.gz").items():
        yield texts[query_id], ranked


def _searcher(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, "lines", "exec"), space)
    return space["searcher"], space["hits"]


def _check(found: dict[str, float], ranked: Any, tolerance: float) -> None:
    scores = np.array(ranked.scores)
    np.testing.assert_allclose(sorted(found.values(), reverse=True), scores, rtol=tolerance, atol=tolerance)
    certain = {each for each, score in zip(ranked.doc_ids, scores, strict=True) if score > scores[-1] + 1e-4}
    assert certain <= found.keys()


@pytest.mark.parametrize("stage", ["vectors", *(f"index-{name}" for name in _DENSE)])
def test_dense_lines_find_the_same(started_java, runs, programs, stage):
    text = programs[stage]
    assert "AutoQueryEncoder" in text and 'prefix="query:"' in text and "model_max_length = 5" in text
    searcher, hits = _searcher(text)
    assert len(hits) == _DEPTH
    for query, ranked in _asked(runs["dense"], stage):
        _check({hit.docid: hit.score for hit in searcher.search(query, k=_DEPTH)}, ranked, 1e-4)


def test_lines_of_segments_give_documents(started_java, runs, programs):
    text = programs["segments"]
    query, ranked = next(_asked(runs["dense"], "segments"))
    _, hits = _searcher(text.replace("a question", query))
    _check(dict(list(hits.items())[:_DEPTH]), ranked, 1e-4)


def test_lucene_lines_find_the_same(started_java, runs, programs):
    text = programs["bm25"]
    assert "searcher.set_bm25(1.2, 0.7)" in text
    searcher, _ = _searcher(text)
    for query, ranked in _asked(runs["dense"], "bm25"):
        _check({hit.docid: hit.score for hit in searcher.search(query, k=_DEPTH)}, ranked, 1e-4)
