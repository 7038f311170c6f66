"""A run folder retrieves what its own searches found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hardneg_pyterrier import Retriever, Run
from recipes.recipes import plan_in, small_collection
from tiny import tiny_encoder

from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, execute, publish
from hardneg.records import DataError, PluginError, UsageError
from hardneg.store import Store

pytestmark = pytest.mark.slow

_DEPTH = 10


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run folder and its store: an index of what a model made, one built of it, one of segments, and BM25."""
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


@pytest.mark.parametrize("stage", ["vectors", "built", "segments", "bm25"])
def test_each_index_of_a_run_folder(dense: tuple[Path, Path], queries: pd.DataFrame, stage: str):
    out, store = dense
    retriever = Retriever(out, index=stage, depth=_DEPTH, store=store, device="cpu")
    _check(retriever(queries), out / "runs" / f"{stage}-run.trec.gz")


def test_the_index_that_is_handed_out_needs_no_store(dense: tuple[Path, Path], queries: pd.DataFrame, tmp_path: Path):
    out, _ = dense
    retriever = Retriever(out, depth=_DEPTH, store=tmp_path, device="cpu")
    assert retriever.laid.folder == out / "index"
    _check(retriever(queries), out / "runs" / f"{retriever.laid.stage}-run.trec.gz")


def test_an_index_folder_and_its_model(dense: tuple[Path, Path], queries: pd.DataFrame):
    from hardneg.encoders.spec import ModelSpec

    out, store = dense
    laid = Retriever(out, index="vectors", store=store).laid
    spec = ModelSpec(str(out.parent / "model"), query_length=16)
    retriever = Retriever.from_index(laid.folder, spec, depth=_DEPTH, device="cpu")
    _check(retriever(queries), out / "runs" / "vectors-run.trec.gz")


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


def test_other_columns_stay_and_no_queries_are_no_rows(dense: tuple[Path, Path], queries: pd.DataFrame):
    out, store = dense
    retriever = Retriever(out, index="vectors", depth=2, store=store, device="cpu")
    found = retriever(queries.head(2).assign(topic=["a", "b"]))
    assert found["topic"].tolist() == ["a", "a", "b", "b"]
    assert list(retriever(queries.head(0)).columns) == ["qid", "query", "docno", "score", "rank"]


def test_what_is_not_there_is_told(dense: tuple[Path, Path], tmp_path: Path):
    out, store = dense
    with pytest.raises(DataError, match="give the folder of a finished recipe"):
        Retriever(tmp_path)
    with pytest.raises(UsageError, match="no index other; there are: "):
        Retriever(out, index="other", store=store)
    with pytest.raises(PluginError, match="no-such"):
        Retriever.from_index(out / "index", backend={"name": "no-such"})
