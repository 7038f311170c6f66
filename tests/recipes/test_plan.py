import json
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import plan_in, recipe_in, small_collection, small_tree, write_recipe
from tiny import tiny_encoder

from hardneg.encoders.open.contract import Shape
from hardneg.encoders.open.resolved import resolve
from hardneg.recipes import Options, Watcher, execute, explain, load_recipe, make_plan, plan as planning
from hardneg.recipes.lookahead import Estimate, estimate, networks, no_room, plan_sizes, step_sizes
from hardneg.records import HardnegError, UsageError
from hardneg.store import Store

PINNED = Path(__file__).with_name("pinned_keys.json")


def add_bm25(tree):
    tree["stages"]["bm25-index"] = {"stage": "index", "backend": "bm25"}
    tree["stages"]["bm25"] = {"stage": "search", "index": "bm25-index"}
    return tree


@pytest.fixture
def tree(tmp_path):
    return add_bm25(small_tree(small_collection(tmp_path / "data"), tiny_encoder(tmp_path / "model")))


def keys(tmp_path, tree, settings=()):
    plan = plan_in(tmp_path, tree, *settings)
    return {name: step.key for name, step in plan.steps.items()}


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_keys_are_pinned(tmp_path, tree, monkeypatch):
    """A key that changes here makes users' stores useless: raise a `version` and note it in the changelog."""
    monkeypatch.setattr(planning, "_model_digest", lambda recipe: f"weights, {recipe.model.query_length}")
    assert keys(tmp_path, tree) == json.loads(PINNED.read_text())


def test_one_changed_weight_changes_what_depends_on_it_and_nothing_else(tmp_path, tree):
    before = keys(tmp_path, tree)
    weights = tmp_path / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    after = keys(tmp_path, tree)
    assert changed(before, after) == set(before) - {"dataset", "bm25-index", "bm25"}


def test_one_changed_option_changes_what_depends_on_it_and_nothing_else(tmp_path, tree):
    before = keys(tmp_path, tree)
    after_training = {"star", "star-index", "star-test", "scores", "report"}
    assert changed(before, keys(tmp_path, tree, ["stages.star.options.learning_rate=1e-4"])) == after_training
    assert changed(before, keys(tmp_path, tree, ["stages.static.miner.depth=9"])) == after_training | {"static"}
    assert changed(before, keys(tmp_path, tree, ["stages.bm25-index.backend.k1=1.2"])) == {"bm25-index", "bm25"}


def test_what_cannot_change_a_result_is_not_in_a_key(tmp_path, tree):
    before = keys(tmp_path, tree)
    free = ["stages.star.options.checkpoint_every=1", "stages.star-index.tokens_per_batch=64"]
    assert keys(tmp_path, tree, free) == before
    tree["stages"] = {name: tree["stages"][name] for name in reversed(tree["stages"])}
    assert keys(tmp_path, tree) == before


def test_a_changed_document_changes_everything(tmp_path, tree):
    before = keys(tmp_path, tree)
    corpus = tmp_path / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("river", "rivet", 1))
    assert changed(before, keys(tmp_path, tree)) == set(before)


def test_moving_the_sources_changes_nothing(tmp_path, tree):
    before = keys(tmp_path, tree)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "model").rename(tmp_path / "other")
    tree["dataset"], tree["model"]["name"] = f"beir:{tmp_path / 'elsewhere'}", str(tmp_path / "other")
    assert keys(tmp_path, tree) == before


def test_until_keeps_what_a_step_needs(tmp_path, tree):
    plan = plan_in(tmp_path, tree)
    assert [step.name for step in plan.until("static")] == ["dataset", "start-index", "start-train", "static"]
    with pytest.raises(UsageError, match="did you mean 'static'"):
        plan.until("statik")


def test_why_names_the_difference(tmp_path, tree):
    store = Store(tmp_path / "store")
    old = plan_in(tmp_path, tree).steps["static"]
    assert explain(old, store)[1:] == ["the store has no artifact of stage mine to compare with"]
    store.workspace(old.key)
    store.commit(old.key, "negatives", {}, {**old.origin, "name": "static"})
    assert "in the store as" in explain(old, store)[0]
    new = make_plan(load_recipe(tmp_path / "r.yaml", settings=["stages.static.miner.depth=9"])).steps["static"]
    assert explain(new, store)[2:] == ["  plugins.miner.options.depth: was 10, is now 9"]


def test_a_plan_can_be_looked_at_without_the_sources(tmp_path, tree):
    tree["model"]["name"] = "somebody/elsewhere"
    recipe = recipe_in(tmp_path, tree)
    with pytest.raises(HardnegError):
        make_plan(recipe)
    problems = []
    rows = estimate(make_plan(recipe, problems), Store(tmp_path / "store"))
    assert len(problems) == 1 and "somebody/elsewhere" in str(problems[0])
    assert all(row.items > 0 and row.seconds is None and not row.cached for row in rows)


def test_seconds_are_those_of_a_step_like_it(tmp_path, tree):
    """Of the same stage, options, dataset and start model; another seed or a model trained in between may differ."""
    store = Store(tmp_path / "store")

    def commit(step, seconds):
        store.workspace(step.key)
        store.commit(step.key, step.spec.artifact_type, {"seconds": seconds}, {**step.origin, "name": step.name})

    def told(*settings):
        return {row.step.name: row.seconds for row in estimate(plan_in(tmp_path, tree, *settings), store)}

    plan, took = plan_in(tmp_path, tree, "seed=3"), {"star": 20.0, "star-index": 300.0, "star-test": 4000.0}
    execute(plan, store, Options(until="dataset", device="cpu"), Watcher())
    commit(plan.steps["static"], 1.0)
    for name, seconds in took.items():
        commit(plan.steps[name], seconds)
    known = {**dict.fromkeys(plan.steps), **took, "static": 1.0, "start-index": 300.0, "start-test": 4000.0}
    assert told("seed=4") == known  # with the start model the encoding is like that with the trained one
    assert told("seed=4", "stages.star.options.learning_rate=0.002") == {**known, "star": None}
    corpus = tmp_path / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("river", "rivet", 1))
    assert set(told("seed=4").values()) == {None}


def test_a_plan_asks_the_loader_for_its_queries(tmp_path, tree):
    def rows(*settings):
        plan = make_plan(recipe_in(tmp_path, tree, *settings), [])
        return {row.step.name: row.items for row in estimate(plan, Store(tmp_path / "store"))}

    pydocs = ["dataset=pydocs", "dataset.max_passages=1000"]
    assert (rows(*pydocs)["start-test"], rows(*pydocs)["start-train"]) == (120, 825)
    half = rows(*pydocs, "dataset.withheld.unlabelled=0.4")
    assert (half["start-test"], half["start-train"]) == (120, 495)
    assert rows(*pydocs, "sizes.queries.test=7")["start-test"] == 7


def test_a_plan_knows_the_networks_of_rerankers(tmp_path, tree):
    reranker = {"name": "cross-encoder", "source": "somebody/bert-large", "length": 32}
    tree["stages"] |= {
        "judge": {"stage": "train-reranker", "reranker": reranker, "negatives": "static"},
        "judged": {"stage": "rerank", "reranker": "judge", "run": "start-test"},
        "plain": {"stage": "rerank", "plugin": {**reranker, "source": tree["model"]["name"]}, "run": "start-test"},
    }
    plan = make_plan(recipe_in(tmp_path, tree), [])
    found = plan_sizes(plan, Store(tmp_path / "store"))
    shapes = {name: resolve(spec).shape for name, spec in networks(plan)}
    usual = Shape()  # of a model that is not here
    named = ("judge", "judged", "plain")
    by_name = {name: step_sizes(found, plan, plan.steps[name], shapes).network for name in named}
    assert by_name == {"judge": usual, "judged": usual, "plain": found.shape}
    rows = {row.step.name: row for row in estimate(plan, Store(tmp_path / "store"))}
    assert rows["judge"].disk == 4 * usual.weights


def test_a_plan_knows_what_is_withheld(tmp_path, tree):
    tree["dataset"] = {"name": "beir", "source": str(tmp_path / "data"), "withheld": {"unlabelled": 0.25}}
    tree["sizes"] = {"documents": 1000, "queries": {"train": 36, "test": 14}}
    tree["stages"]["unlabelled"] = {"stage": "search", "index": "start-index", "split": "unlabelled"}

    def items(store):
        plan = plan_in(tmp_path, tree)
        rows = {row.step.name: row.items for row in estimate(plan, store)}
        return {name: rows[name] for name in ("dataset", "start-train", "unlabelled", "start-test")}, plan

    store = Store(tmp_path / "store")
    said, plan = items(store)
    assert said == {"dataset": 1000, "start-train": 27, "unlabelled": 9, "start-test": 14}
    made = execute(plan, store, Options(until="dataset", device="cpu"), Watcher()).artifacts["dataset"]
    splits = made.facts["splits"]
    moved = splits["unlabelled"]["queries"]
    sizes = {"dataset": 60, "start-train": 36 - moved, "unlabelled": moved, "start-test": 14}
    assert moved and items(store)[0] == sizes
    del tree["sizes"]
    assert items(Store(tmp_path / "none"))[0]["unlabelled"] == 9


@pytest.fixture
def rows(tmp_path: Path, tiny_model: Path) -> Any:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    path = write_recipe(tmp_path / "r.yaml", tree)

    def planned(documents: int | None = None) -> dict[str, Estimate]:
        plan = make_plan(load_recipe(path), [])
        found = estimate(plan, Store(tmp_path / "store"), None, documents)
        return {row.step.name: row for row in found}

    return planned


def test_what_does_not_fit_is_told_with_what_to_do(rows: Any) -> None:
    (told,) = no_room(list(rows(10**13).values()), free=1e12)
    assert told.startswith("disk: ") and "has only 1.0 TB free; choose a store with more space" in told
    assert not list(no_room(list(rows().values()), 1e12)) and not list(no_room(list(rows(10**7).values()), None))
