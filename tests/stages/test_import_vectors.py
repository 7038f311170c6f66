"""Stages `import` and `index`, and `search` with vectors of queries."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_tree

from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run
from hardneg.formats.vectors import FlatVectors
from hardneg.records import DataError, RecipeError
from hardneg.store import Artifact
from tests.run_lists import doc_lists, score_lists

DOCUMENTS = np.random.default_rng(5).standard_normal((60, 4)).astype(np.float32)
QUERIES = DOCUMENTS + np.float32(0.01)
ORDER = np.random.default_rng(6).permutation(60)


def write(path: Path, prefix: str, vectors: np.ndarray, rows: list[int] | np.ndarray) -> Path:
    ids = [f"{prefix}{row}" for row in rows]
    pq.write_table(pa.table({"id": ids, "vector": pa.array([vectors[row % 60] for row in rows])}), path)
    return path


def tree_of(folder: Path) -> dict[str, Any]:
    """Vectors in another order than the corpus's, and some of documents and queries that are not there."""
    documents = write(folder / "documents.parquet", "d", DOCUMENTS, [*ORDER, 60, 61])
    queries = write(folder / "queries.parquet", "q", QUERIES, ORDER)
    data = folder / "data"
    tree = small_tree(data if data.exists() else small_collection(data), folder / "no-model")
    searched = {"stage": "search", "index": "given", "query_vectors": str(queries)}
    tree["stages"] = {
        "given": {"stage": "import", "vectors": str(documents)},
        "train-run": {**searched, "split": "train", "depth": 8},
        "test-run": {**searched, "split": "test", "depth": 60},
        "mined": {"stage": "mine", "runs": {"given": "train-run"}, "miner": {"name": "topk", "depth": 5}},
        "scores": {"stage": "evaluate", "runs": {"given": "test-run"}, "metrics": ["mrr@10"]},
    }
    return tree


def made(folder: Path, tree: dict[str, Any]) -> dict[str, Artifact]:
    return dict(artifacts_of(plan_in(folder, tree), folder / "store"))


def test_vectors_are_searched_mined_from_and_measured_without_a_model(tmp_path: Path) -> None:
    artifacts = made(tmp_path, tree_of(tmp_path))
    facts = artifacts["given"].facts
    assert (facts["passages"], facts["dimension"], facts["vectors of other documents"]) == (60, 4, 2)
    stored = FlatVectors.open(artifacts["given"].path)
    assert stored.read(0, 60).tolist() == DOCUMENTS.tolist() and list(stored.doc_ids) == [f"d{i}" for i in range(60)]
    scores = QUERIES @ DOCUMENTS.T
    run = read_run(artifacts["test-run"].path / "run.trec.gz")
    assert list(run) == [f"q{row}" for row in range(46, 60)]
    assert artifacts["test-run"].facts["vectors of other queries"] == 46
    assert sorted(path.name for path in artifacts["test-run"].path.iterdir()) == ["manifest.json", "run.trec.gz"]
    for row, ids, found in zip(range(46, 60), doc_lists(run), score_lists(run), strict=True):
        assert list(ids) == [f"d{place}" for place in np.argsort(-scores[row])]
        np.testing.assert_allclose(found, -np.sort(-scores[row]), rtol=1e-4, atol=1e-5)
    mined = read_negatives(artifacts["mined"].path / "negatives.arrow")
    for query_id, negatives in ((item.query_id, item.negatives) for item in mined):
        row = int(query_id[1:])
        best = [f"d{place}" for place in np.argsort(-scores[row])[:8] if place != row]
        assert list(negatives) == best[:5]


def test_the_content_counts_not_the_place(tmp_path: Path) -> None:
    before = plan_in(tmp_path, tree_of(tmp_path)).keys
    tree = tree_of(tmp_path)
    moved = (tmp_path / "documents.parquet").rename(tmp_path / "moved.parquet")
    tree["stages"]["given"]["vectors"] = str(moved)
    assert plan_in(tmp_path, tree).keys == before
    write(tmp_path / "queries.parquet", "q", QUERIES + 1, ORDER)
    after = plan_in(tmp_path, tree).keys
    assert {name for name in after if after[name] != before[name]} == {"train-run", "test-run", "mined", "scores"}


def test_a_model_may_encode_the_queries_and_compressed_ones_are_searched_too(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree["stages"]["small"] = {"stage": "index", "backend": "flat", "vectors": "given"}
    searched = {"stage": "search", "query_vectors": tree["stages"]["test-run"]["query_vectors"], "depth": 60}
    tree["stages"]["small-run"] = {**searched, "index": "small"}
    named = {"stage": "search", "index": "small", "model": "start"}
    assert recipe_in(tmp_path, {**tree, "stages": {**tree["stages"], "named": named}})
    with pytest.raises(RecipeError, match=r"named\.query_vectors: missing, .* vectors of 'small'"):
        del named["model"]
        recipe_in(tmp_path, {**tree, "stages": {**tree["stages"], "named": named}})
    artifacts = made(tmp_path, tree)
    whole, small = (artifacts[name].path / "run.trec.gz" for name in ("test-run", "small-run"))
    assert whole.read_bytes() == small.read_bytes()


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"test-run": {"query_vectors": None}}, "test-run.query_vectors: missing, and the model"),
        ({"test-run": {"model": "start"}}, "test-run.model: cannot be combined with query_vectors"),
        ({"test-run": {"scores": "angular"}}, "test-run.scores: cannot be combined with query_vectors"),
        ({"test-run": {"query_vectors": None, "query_ids": "x"}}, "test-run.query_ids: needs query_vectors"),
        ({"given": {"stage": "index", "backend": "bm25", "vectors": None}}, "is searched with text, not vectors"),
    ],
)
def test_mistakes_of_a_recipe(tmp_path: Path, stages: dict[str, dict[str, Any]], message: str) -> None:
    tree = tree_of(tmp_path)
    for name, changes in stages.items():
        merged = {**tree["stages"][name], **changes}
        tree["stages"][name] = {key: value for key, value in merged.items() if value is not None}
    with pytest.raises(RecipeError) as caught:
        recipe_in(tmp_path, tree)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "rows", "dimension", "message"),
    [
        ("documents", range(59), 4, "documents.parquet: no vector for 1 of 60 documents, such as 'd59'"),
        ("queries", range(5, 50), 4, "queries.parquet: no vector for 5 of 36 queries, such as 'q0'"),
        ("queries", range(60), 3, "queries.parquet: vectors have dimension 3, but index given has dimension 4; encode"),
    ],
)
def test_vectors_that_do_not_fit(tmp_path: Path, name: str, rows: range, dimension: int, message: str) -> None:
    tree = tree_of(tmp_path)
    write(tmp_path / f"{name}.parquet", name[0], QUERIES[:, :dimension], list(rows))
    with pytest.raises(DataError) as caught:
        made(tmp_path, tree)
    assert message in str(caught.value) and "\n" not in str(caught.value)
