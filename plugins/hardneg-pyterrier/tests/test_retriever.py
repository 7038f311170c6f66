"""Tests of the PyTerrier transformers for runs, indexes and rerankers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hardneg_pyterrier import Reranker, Retriever, Run, transformers
from recipes.recipes import plan_in, small_collection
from tiny import tiny_encoder

from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, execute, publish
from hardneg.records import DataError, PluginError, PluginSetting, UsageError
from hardneg.store import Store

_DEPTH = 10
ASKED = pd.DataFrame([["2", "b", "x"], ["other", "c", "y"], ["1", "a", "z"]], columns=["qid", "query", "topic"])


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run folder and its store with a model's vectors, an index of them, an index of segments, and BM25."""
    folder = tmp_path_factory.mktemp("dense")
    made = {
        "vectors": {"stage": "encode"},
        "built": {"stage": "index", "backend": {"name": "hnsw", "m": 8}, "vectors": "vectors"},
        "segments": {"stage": "encode", "segments": {"length": 6, "count": 3}},
        "bm25": {"stage": "index", "backend": "bm25"},
    }
    searches = {f"{name}-run": {"stage": "search", "index": name, "depth": _DEPTH} for name in made}
    model = {"name": str(tiny_encoder(folder / "model")), "query_length": 16}
    tree = {"dataset": f"beir:{small_collection(folder / 'data')}", "model": model, "stages": {**made, **searches}}
    plan, store = plan_in(folder, tree), Store(folder / "store")
    publish(plan, execute(plan, store, Options(device="cpu"), Watcher()).artifacts, store, folder / "out")
    return folder / "out", store.root


def _check(found: pd.DataFrame, path: Path) -> None:
    run = read_run(path)
    assert list(dict.fromkeys(found["qid"])) == list(run) and len(run) == 14
    for query_id, part in found.groupby("qid", sort=False):
        assert part["docno"].tolist() == list(run[query_id].doc_ids)
        np.testing.assert_allclose(part["score"], run[query_id].scores, rtol=1e-5)
        assert part["rank"].tolist() == list(range(len(part)))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["vectors", "built", "segments", "bm25"])
def test_each_index_of_a_run_folder(dense: tuple[Path, Path], queries: pd.DataFrame, stage: str):
    out, store = dense
    retriever = Retriever(out, index=stage, depth=_DEPTH, store=store, device="cpu")
    _check(retriever(queries), out / "runs" / f"{stage}-run.trec.gz")


@pytest.mark.slow
def test_the_index_that_is_handed_out_needs_no_store(dense: tuple[Path, Path], queries: pd.DataFrame, tmp_path: Path):
    out, _ = dense
    retriever = Retriever(out, depth=_DEPTH, store=tmp_path, device="cpu")
    assert retriever.laid.folder == out / "index"
    _check(retriever(queries), out / "runs" / f"{retriever.laid.stage}-run.trec.gz")


@pytest.mark.slow
def test_an_index_folder_and_its_model(dense: tuple[Path, Path], queries: pd.DataFrame):
    from hardneg.encoders.spec import ModelSpec

    out, store = dense
    laid = Retriever(out, index="vectors", store=store).laid
    spec = ModelSpec(str(out.parent / "model"), query_length=16)
    retriever = Retriever.from_index(laid.folder, spec, depth=_DEPTH, device="cpu")
    _check(retriever(queries), out / "runs" / "vectors-run.trec.gz")


@pytest.mark.slow
def test_operators_of_pyterrier(dense: tuple[Path, Path], queries: pd.DataFrame):
    out, store = dense
    path = out / "runs" / "vectors-run.trec.gz"
    first, second = Retriever(out, index="vectors", depth=_DEPTH, store=store, device="cpu"), Run(path)
    best = (first % 3)(queries)
    assert len(best) == 3 * len(queries)
    both = (first + second)(queries).sort_values(["qid", "score"], ascending=[True, False])
    alone = first(queries).sort_values(["qid", "score"], ascending=[True, False])
    np.testing.assert_allclose(both["score"], 2 * alone["score"], rtol=1e-5)
    added = first >> pt.apply.doc_score(lambda row: row["score"] + 1)
    np.testing.assert_allclose(added(queries)["score"].max(), alone["score"].max() + 1, rtol=1e-6)
    assert not pt.java.started()


@pytest.mark.slow
def test_other_columns_stay_and_no_queries_are_no_rows(dense: tuple[Path, Path], queries: pd.DataFrame):
    out, store = dense
    retriever = Retriever(out, index="vectors", depth=2, store=store, device="cpu")
    found = retriever(queries.head(2).assign(topic=["a", "b"]))
    assert found["topic"].tolist() == ["a", "a", "b", "b"]
    assert list(retriever(queries.head(0)).columns) == ["qid", "query", "docno", "score", "rank"]


@pytest.mark.slow
def test_what_is_not_there_is_told(dense: tuple[Path, Path], tmp_path: Path):
    out, store = dense
    with pytest.raises(DataError, match="give the folder of a finished recipe"):
        Retriever(tmp_path)
    with pytest.raises(UsageError, match="no index other; available: "):
        Retriever(out, index="other", store=store)
    with pytest.raises(PluginError, match="no-such"):
        Retriever.from_index(out / "index", backend={"name": "no-such"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.trec").write_text("1 Q0 d1 1 3.5 a\n1 Q0 d2 2 2.5 a\n1 Q0 d3 3 1.5 a\n2 Q0 d9 1 7 a\n")
    return tmp_path / "a.trec"


def test_lists_stand_in_the_order_of_the_queries(path: Path):
    found = Run(path)(ASKED)
    assert found.to_numpy().tolist() == [
        ["2", "b", "x", "d9", 7.0, 0],
        ["1", "a", "z", "d1", 3.5, 0],
        ["1", "a", "z", "d2", 2.5, 1],
        ["1", "a", "z", "d3", 1.5, 2],
    ]
    assert found.columns.tolist() == ["qid", "query", "topic", "docno", "score", "rank"]


def test_depth_and_queries_without_a_list(path: Path):
    assert Run(path, depth=1)(ASKED)["docno"].tolist() == ["d9", "d1"]
    for nothing in (ASKED[ASKED["qid"] == "other"], ASKED.head(0)):
        assert list(Run(path)(nothing).columns) == ["qid", "query", "topic", "docno", "score", "rank"]
        assert not len(Run(path)(nothing))


def test_runs_compose(path: Path):
    queries = ASKED[["qid", "query"]]
    assert (Run(path) % 1)(queries)["docno"].tolist() == ["d9", "d1"]
    twice = (Run(path) + Run(path))(queries)
    np.testing.assert_allclose(sorted(twice["score"]), [3.0, 5.0, 7.0, 14.0])


@dataclass(frozen=True)
class _Lengths:
    """A reranker whose score is the number of words of a document times the number of words of the query."""

    version: ClassVar[int] = 1

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        for query, texts in requests:
            yield [float(len(query.split()) * len(text.split())) for text in texts]


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> Reranker:
    def configured(kind: str, setting: PluginSetting) -> _Lengths:
        assert (kind, setting.name) == ("rerankers", "lengths")
        return _Lengths()

    monkeypatch.setattr(transformers.hp.registry, "configure", configured)
    return Reranker("lengths")


def test_documents_are_ordered_by_the_new_scores(lengths: Reranker):
    rows = [["1", "a b", "d1", "x", 9.0, 0], ["2", "c", "d1", "x", 5.0, 0], ["1", "a b", "d2", "x y z", 8.0, 1]]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "score", "rank"])
    found = lengths(frame)
    assert found[["qid", "docno", "score", "rank"]].to_numpy().tolist() == [
        ["1", "d2", 6.0, 0],
        ["1", "d1", 2.0, 1],
        ["2", "d1", 1.0, 0],
    ]
    assert found.columns.tolist() == frame.columns.tolist()


def test_ties_stay_in_their_order_and_nothing_stays_nothing(lengths: Reranker):
    rows = [["1", "a", "d2", "x"], ["1", "a", "d1", "y"]]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"]).assign(score=0.0, rank=0)
    assert lengths(frame)["docno"].tolist() == ["d2", "d1"]
    assert not len(lengths(frame.head(0)))


def test_an_unknown_reranker_is_told():
    with pytest.raises(PluginError, match="no-such"):
        Reranker("no-such")


@pytest.mark.slow
def test_a_cross_encoder_gives_its_own_scores(tmp_path_factory: pytest.TempPathFactory):
    from tiny import tiny_reranker

    folder = tiny_reranker(tmp_path_factory.mktemp("cross") / "model")
    made = Reranker.from_folder(folder, activation="none")
    texts = ["old river", "blue engine near the bridge", "garden"]
    frame = pd.DataFrame({"qid": "1", "query": "blue bridge", "docno": ["a", "b", "c"], "text": texts, "score": 0.0})
    found = made(frame)
    own = dict(zip("abc", next(iter(made.plugin.rerank([("blue bridge", texts)]))), strict=True))
    assert found["docno"].tolist() == sorted(own, key=lambda name: -own[name])
    assert found["score"].tolist() == [float(own[name]) for name in found["docno"]]
