"""Stage `train-queries` in recipes: twins that search the same index, every schedule, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import NEEDS_PAPERS, small_collection, small_part, write_recipe

from hardneg.encoders.open.resolved import load_learner
from hardneg.recipes import Options, Outcome, Watcher, execute, load_recipe, make_plan, publish
from hardneg.records import RecipeError, UsageError
from hardneg.store import Store

ADORE = {
    "stage": "train-queries",
    "index": "start-index",
    "loss": {"name": "lambda", "cut": 10},
    "depth": 10,
    "options": {"batch_size": 8, "max_steps": 3, "learning_rate": 0.001, "precision": "fp32"},
    "watch": {"every": 2, "queries": 5, "depth": 10},
    "validation_run": "start-dev",
}
SEARCH = {"stage": "search", "index": "start-index", "split": "test", "depth": 20}


def tree_of(collection: Path, model: Path) -> dict[str, Any]:
    tree = small_part(collection, model, "start-index", "start-test", "start-train", "static")
    kept = tree["stages"]
    kept["start-dev"] = {"stage": "search", "index": "start-index", "split": "dev", "depth": 20}
    kept["adore"] = ADORE
    kept["adore-test"] = {**SEARCH, "model": "adore"}
    watched = {"retrieval_dropout": False, "watch": {"every": 1, "depth": 10}}
    kept["with-static"] = {**ADORE, "schedule": "static", "negatives": "static"}
    kept["with-refreshed"] = {**ADORE, "schedule": "refreshed", "refresh_every": 2, "watch": {"every": 2}}
    kept["with-random"] = {**ADORE, "schedule": "random", "forced_positives": "always", **watched}
    kept["again"] = {**ADORE, "model": "adore", "index": "copied", "loss": "ranknet", **watched}
    indexed = {"stage": "index", "vectors": "start-index"}
    kept["small"] = {**indexed, "backend": {"name": "opq-pq", "subvectors": 8, "bits": 4}}
    kept["with-small"] = {**ADORE, "index": "small", "watch": {"every": 2}}
    kept["small-test"] = {**SEARCH, "index": "small", "model": "with-small"}
    backends = {"lists": {"name": "ivf-flat", "lists": 4, "nprobe": 4}, "graph": {"name": "hnsw", "m": 8}}
    for name, backend in backends.items():
        kept[name] = {**indexed, "backend": backend}
        kept[f"with-{name}"] = {**ADORE, "index": name}
    kept["joint"] = {**ADORE, "index": "small", "centroids": "trained", "centroid_learning_rate": 0.01}
    kept["joint-test"] = {"stage": "search", "index": "joint", "split": "test", "depth": 20}
    kept["on-joint"] = {**kept["joint"], "model": "joint", "index": "joint"}
    kept["joint-by-adore"] = {**SEARCH, "index": "joint", "model": "adore"}
    indexes = {"JPQ": "joint", "again": "on-joint"}
    kept["behind"] = {"stage": "analyze", "analysis": {"errors": {"indexes": indexes, "depth": 20}}}
    kept["copied"] = {**indexed, "backend": "flat"}
    return {**tree, "presets": {}, "outputs": {"model": "joint", "index": "joint"}}


pytest.importorskip("faiss", reason="compressed indexes need faiss")
pytestmark = [pytest.mark.slow, NEEDS_PAPERS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[Path, Store, Outcome]:
    folder = tmp_path_factory.mktemp("adore")
    path = write_recipe(folder / "adore.yaml", tree_of(small_collection(folder / "data"), tiny_model))
    store = Store(folder / "store")
    return path, store, execute(make_plan(load_recipe(path)), store, Options(device="cpu"), Watcher())


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def test_the_documents_side_and_the_index_stay(made: tuple[Path, Store, Outcome], tiny_model: Path) -> None:
    outcome = made[2]
    folder = outcome.artifacts["adore"].path / "model"
    encoder = load_learner(folder, "cpu")
    assert encoder.twins
    vectors = np.fromfile(outcome.artifacts["start-index"].path / "index", "<f4", offset=45).reshape(60, -1)
    texts = ["the old river was seen again near river", "the blue river was seen again near engine"]
    documents, queries = encoder.encode(texts, "document"), encoder.encode(texts, "query")
    assert documents == pytest.approx(vectors[:2], abs=1e-5)
    assert np.abs(queries - documents).max() > 1e-3
    assert digests(outcome.artifacts["copied"].path)["index"] == digests(outcome.artifacts["start-index"].path)["index"]


def test_the_manifest_and_the_history_tell_of_it(made: tuple[Path, Store, Outcome]) -> None:
    artifact = made[2].artifacts["adore"]
    assert artifact.facts["steps"] == 3 and "best dev mrr@10" in artifact.facts
    records = [json.loads(line) for line in (artifact.path / "history.jsonl").read_text().splitlines()]
    drift = {record["step"]: record["drift"] for record in records if "drift" in record}
    assert list(drift) == [0, 2]
    assert drift[0]["overlap"] > 0.8 and drift[0]["best_rank"] < 3
    assert {path.name for path in artifact.path.iterdir()} == {"model", "history.jsonl", "manifest.json"}
    card = (artifact.path / "model" / "README.md").read_text()
    assert "the query encoder alone, against the index start-index" in card


@pytest.mark.parametrize("name", ["with-static", "with-refreshed", "with-random", "with-small", "again"])
def test_every_schedule_makes_a_model(made: tuple[Path, Store, Outcome], name: str) -> None:
    artifact = made[2].artifacts[name]
    assert (artifact.path / "model" / "modules.json").is_file()
    assert {path.name for path in artifact.path.iterdir()} == {"model", "history.jsonl", "manifest.json"}


@pytest.mark.parametrize("name", ["with-lists", "with-graph"])
def test_steps_search_lists_and_graphs(made: tuple[Path, Store, Outcome], name: str) -> None:
    """All lists, or a graph of few documents, hold what an exact search finds, and the very vectors."""
    found, exact = (sorted((made[2].artifacts[each].path / "model").rglob("*.safetensors")) for each in (name, "adore"))
    assert len(found) == len(exact) >= 2
    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in exact]


def drift_of(made: tuple[Path, Store, Outcome], name: str) -> dict[int, dict[str, float]]:
    lines = (made[2].artifacts[name].path / "history.jsonl").read_text().splitlines()
    return {record["step"]: record["drift"] for record in map(json.loads, lines) if "drift" in record}


def test_the_watch_of_lists_in_use(made: tuple[Path, Store, Outcome]) -> None:
    assert drift_of(made, "with-refreshed")[0]["overlap"] == 1
    dynamic, random = drift_of(made, "again"), drift_of(made, "with-random")
    assert list(dynamic) == list(random) == [0, 1, 2, 3]
    assert {look["overlap"] for look in dynamic.values()} == {1.0}
    assert all(0 < look["overlap"] < 0.6 for look in random.values())
    assert all(1 <= look["best_rank"] < 2.5 for look in dynamic.values())


def test_trained_centroids_are_an_index_that_a_search_may_name(made: tuple[Path, Store, Outcome]) -> None:
    from hardneg.indexes.product import PqSearcher

    path, _, outcome = made
    folder = outcome.artifacts["joint"].path
    assert {item.name for item in folder.iterdir()} == {"model", "index", "history.jsonl", "manifest.json"}
    start, trained = PqSearcher.open(outcome.artifacts["small"].path), PqSearcher.open(folder / "index")
    assert np.array_equal(start.codes(np.arange(60)), trained.codes(np.arange(60)))
    assert 1e-4 < np.abs(start.centroids() - trained.centroids()).max() < 0.1
    plan = make_plan(load_recipe(path))
    assert plan.steps["joint-test"].inputs == {"index": "joint", "dataset": "dataset", "model": "joint"}
    assert outcome.artifacts["joint-test"].artifact_type == "run"


def test_such_an_index_goes_where_any_index_does(made: tuple[Path, Store, Outcome], tmp_path: Path) -> None:
    from hardneg.indexes.open_store import DenseIndex
    from hardneg.indexes.product import PqSearcher

    path, store, outcome = made
    plan = make_plan(load_recipe(path))
    publish(plan, outcome.artifacts, store, tmp_path / "out")
    index = DenseIndex.open(tmp_path / "out" / "index")
    assert isinstance(index.searcher, PqSearcher) and len(index.doc_ids) == 60
    first, second = (PqSearcher.open(outcome.artifacts[name].path / "index") for name in ("joint", "on-joint"))
    assert np.array_equal(index.searcher.centroids(), first.centroids())
    assert 1e-4 < np.abs(first.centroids() - second.centroids()).max() < 0.1
    errors = json.loads((outcome.artifacts["behind"].path / "errors.json").read_text())
    assert list(errors) == ["JPQ", "again"] and errors["JPQ"]["queries"] == 14
    assert plan.steps["behind"].inputs["analysis.errors.models.again"] == "on-joint"
    assert outcome.artifacts["joint-by-adore"].facts["queries"] == 14
    told = r"stages\.copied\.vectors: 'joint' builds a compressed index; use an encode stage or a flat index"
    with pytest.raises(RecipeError, match=told):
        load_recipe(path, settings=["stages.copied.vectors=joint"])


def test_centroids_need_a_product_quantised_index(made: tuple[Path, Store, Outcome]) -> None:
    with pytest.raises(UsageError, match="adore: index start-index has no centroids to train; use a pq or opq"):
        plan = make_plan(load_recipe(made[0], settings=["stages.adore.centroids=trained"]))
        execute(plan, made[1], Options(device="cpu", until="adore"), Watcher())
    with pytest.raises(RecipeError, match=r"stages\.adore-test\.index: 'adore' is of type model, expected index"):
        load_recipe(made[0], settings=["stages.adore-test.index=adore"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("schedule=static", "negatives: missing; it is required by schedule static"),
        ("refresh_every=5", "refresh_every: cannot be combined with schedule dynamic; remove it"),
    ],
)
def test_mistakes_are_told_before_anything_runs(made: tuple[Path, Store, Outcome], setting: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        load_recipe(made[0], settings=[f"stages.adore.{setting}"])


def test_an_index_of_texts_is_refused(made: tuple[Path, Store, Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardneg.stages.work.open_searcher", lambda *rest, **more: object())
    plan = make_plan(load_recipe(made[0], settings=["stages.adore.depth=9"]))
    told = "adore: index start-index stores no vectors to score"
    with pytest.raises(UsageError, match=told):
        execute(plan, made[1], Options(device="cpu", until="adore"), Watcher())
