"""Stage `train-refreshed`: what it learns from, its plans, and what comes of it after a stop."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from noted import Notes
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.recipes import Options, Watcher, estimate, execute, load_recipe, make_plan
from hardneg.records import RecipeError, TrainingError
from hardneg.store import Artifact, Store


def test_a_synchronous_run_mines_at_every_multiple(recipe, store):
    artifact, notes = make(recipe, store, "ance")
    assert uses(artifact) == [(step // 4, step % 4) for step in range(12)]
    assert {path.name for path in artifact.path.iterdir()} == {"model", "history.jsonl", "manifest.json"}
    facts = artifact.facts
    assert [facts[name] for name in ("steps", "refreshes made", "refreshes used", "mean lag", "largest lag")] == [
        12,
        3,
        3,
        1.5,
        3,
    ]
    assert 0 < facts["waiting's part of the time"] < 1 and facts["seconds of inference: encode"] > 0
    assert notes[-1].startswith("ance: refreshes made 3, refreshes used 3, mean lag 1.5")
    card = (artifact.path / "model" / "README.md").read_text()
    assert "4 per query from the model's own top 10, refreshed: synchronous, 4 steps" in card


def test_any_miner_mines_and_its_drops_are_counted(recipe, store):
    """`pos-percent` on the model's own scores, where each query's positive has one though the search has missed it."""
    facts = make(recipe, store, "guarded")[0].facts
    assert facts["refreshes used"] == 3 and facts["dropped as score"] > 0 and facts["dropped as positive"] > 0
    assert "dropped as no scored positive" not in facts


def test_a_choice_is_a_miner(recipe, store):
    """`sampled` by its name is what is mined without a name; its key is that of a miner."""
    named, _ = make(recipe, store, "ance", "stages.ance.miner={name: sampled, depth: 10, count: 4}")
    plain, _ = make(recipe, store, "ance")
    assert named.key != plain.key and weights(named) == weights(plain)
    top, _ = make(recipe, store, "ance", "stages.ance.refresh.choice=top")
    named, _ = make(recipe, store, "ance", "stages.ance.miner=topk")
    assert weights(named) == weights(top) != weights(plain)


def test_negatives_to_begin_with_and_parts_of_the_queries(recipe, store):
    artifact, _ = make(recipe, store, "parts")
    assert uses(artifact) == [(None, None)] * 4 + [(1, lag) for lag in range(4)] + [(2, lag) for lag in range(4)]


@pytest.mark.slow
def test_beside_the_training(recipe, store):
    longer = ["stages.beside.options.max_steps=60", "stages.beside.refresh.every=10"]
    artifact, notes = make(recipe, store, "beside", *longer)
    used = uses(artifact)
    assert len(used) == 60 and used[0] == (0, 0) and all(lag >= 0 for _, lag in used)
    numbers = [number for number, _ in used]
    assert numbers == sorted(numbers)
    assert artifact.facts["refreshes made"] >= artifact.facts["refreshes used"] == len(set(numbers))
    assert not [line for line in notes if line.startswith("inferencer")]


def test_a_refresh_may_search_an_index(recipe, store):
    """All lists of one are all documents, so the model is that of an exact search."""
    lists = "stages.ance.backend={name: ivf-flat, lists: 4, nprobe: 4}"
    artifact, _ = make(recipe, store, "ance", lists)
    exact, _ = make(recipe, store, "ance")
    assert artifact.key != exact.key and weights(artifact) == weights(exact)
    assert artifact.facts["seconds of inference: index"] > 0 and "seconds of inference: index" not in exact.facts


@pytest.mark.slow
def test_an_index_beside_the_training(recipe, store):
    artifact, notes = make(recipe, store, "beside", "stages.beside.backend={name: hnsw, m: 8}")
    assert artifact.facts["seconds of inference: index"] > 0
    assert not [line for line in notes if line.startswith("inferencer")]


def test_the_plan_counts_the_index_of_a_refresh(recipe, store):
    rows = []
    for settings in ([], ["stages.ance.backend=hnsw"]):
        plan = make_plan(load_recipe(recipe, settings=settings))
        rows.append({row.step.name: row for row in estimate(plan, Store(store.root / "none"))}["ance"])
    assert rows[1].disk > rows[0].disk


def test_nothing_runs_twice_and_the_plan_tells_what_it_takes(recipe, store):
    make(recipe, store, "ance")
    plan = make_plan(load_recipe(recipe))
    assert execute(plan, store, Options(device="cpu", until="ance"), Watcher()).ran == ()
    rows = {row.step.name: row for row in estimate(plan, Store(store.root / "none"))}
    assert rows["ance"].items == 12 and rows["ance"].disk == rows["beside"].disk > 0


def test_devices_do_not_change_the_key(recipe):
    keys = [make_plan(load_recipe(recipe)).steps["ance"].key]
    for setting in ("devices.trainer=3", "devices.inferencer=2", "options.checkpoint_every=7"):
        keys.append(make_plan(load_recipe(recipe, settings=[f"stages.ance.{setting}"])).steps["ance"].key)
    assert len(set(keys)) == 1
    other = make_plan(load_recipe(recipe, settings=["stages.ance.refresh.depth=20"])).steps["ance"].key
    assert other != keys[0]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("filters=[nope]", "stages.ance.filters.0: unknown filter 'nope'"),
        ("refresh.every=null", "stages.ance.refresh: policy 'synchronous' needs an interval"),
        ("miner=union", "stages.ance.miner: union needs several runs; add another one, or use miner sampled"),
        ("backend=bm25", "stages.ance.backend: bm25 indexes text, so a refresh would not change it; remove it"),
        ("backend=multi-vector", "backend: multi-vector is built from one vector per token, but the recipe's model"),
    ],
)
def test_mistakes_are_told_before_anything_runs(recipe, setting, told):
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe, settings=[f"stages.ance.{setting}"])
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["ance", "guarded"])
def test_it_is_the_same_twice_and_after_being_stopped_anywhere(recipe, store, tmp_path, monkeypatch, name):
    """Stopped in the third step, in the second refresh before and after its corpus is encoded, and later on."""
    whole, _ = make(recipe, store, name)
    places = [
        ("hardneg.training.loop.update", 3),
        ("hardneg.encoders.stream.encoded_blocks", 1),
        ("hardneg.formats.negatives.write_negatives", 1),
        ("hardneg.training.loop.update", 6),
    ]
    broken = Store(tmp_path)
    for place, calls in places:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            _stop_at(patch, place, calls)
            make(recipe, broken, name)
    artifact, _ = make(recipe, broken, name)
    assert artifact.key == whole.key and uses(artifact) == uses(whole)
    assert weights(artifact) == weights(whole)


@pytest.mark.parametrize(("name", "steps", "number"), [("ance", 8, 1), ("ance", 4, 0)])
def test_damaged_negatives_are_mined_again_by_the_model_that_mined_them(
    recipe, store, tmp_path, monkeypatch, name, steps, number
):
    """It goes on from step 6, where the weights of step 4 are left of its checkpoint; or from 3, with the start's."""
    whole, _ = make(recipe, store, name)
    _cut_off(recipe, Store(tmp_path), monkeypatch, name, steps, number)
    artifact, notes = make(recipe, Store(tmp_path), name)
    assert sum("has 100 bytes" in line and line.endswith("mining it again") for line in notes) == 1
    assert uses(artifact) == uses(whole) and weights(artifact) == weights(whole)
    assert artifact.facts["refreshes made"] == whole.facts["refreshes made"]


def test_negatives_are_gone_where_the_weights_are_too(recipe, store, tmp_path, monkeypatch):
    make(recipe, store, "ance")
    partial = _cut_off(recipe, Store(tmp_path), monkeypatch, "ance", 8, 1)
    (kept,) = partial.glob("checkpoints/weights-*")
    assert kept.name == "weights-000000004.safetensors"
    kept.unlink()
    for _ in range(2):
        with pytest.raises(TrainingError, match="negatives of step 4 are missing, and so are the weights"):
            make(recipe, Store(tmp_path), "ance")


def _cut_off(recipe: Path, store: Store, monkeypatch: pytest.MonkeyPatch, name: str, steps: int, number: int) -> Path:
    """The folder of a run that was stopped in a step and then lost the end of its negatives."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        _stop_at(patch, "hardneg.training.loop.update", steps)
        make(recipe, store, name)
    (path,) = store.root.glob(f"*.partial/checkpoints/refreshes/{number:06d}/negatives.arrow")
    os.truncate(path, 100)
    return path.parents[3]


def _stop_at(patch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    import importlib

    module, name = place.rsplit(".", 1)
    call, left = getattr(importlib.import_module(module), name), [calls]

    def stopping(*rest: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return call(*rest, **named)

    patch.setattr(place, stopping)


def make(recipe: Path, store: Store, name: str, *settings: str) -> tuple[Artifact, list[str]]:
    notes = Notes()
    plan = make_plan(load_recipe(recipe, settings=settings))
    made = execute(plan, store, Options(device="cpu", until=name), Watcher(progress=notes))
    return made.artifacts[name], notes.lines


def uses(artifact: Artifact) -> list[tuple[Any, Any]]:
    lines = (artifact.path / "history.jsonl").read_text().splitlines()
    return [(record.get("refresh"), record.get("lag")) for record in map(json.loads, lines)]


def weights(artifact: Artifact) -> bytes:
    return (artifact.path / "model" / "model.safetensors").read_bytes()


ANCE = {
    "stage": "train-refreshed",
    "loss": "infonce",
    "refresh": {"policy": "synchronous", "every": 4, "depth": 10, "negatives": 4},
    "options": {"batch_size": 8, "max_steps": 12, "learning_rate": 0.001, "precision": "fp32", "checkpoint_every": 3},
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("refreshed")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    kept = {name: tree["stages"][name] for name in ("start-index", "start-train", "static")}
    kept["start-dev"] = {**kept["start-train"], "split": "dev"}
    parts = {"policy": "synchronous", "every": 4, "depth": 10, "negatives": 4, "query_chunks": 2}
    kept["ance"] = ANCE
    kept["parts"] = {**ANCE, "negatives": "static", "refresh": {**parts, "choice": "top", "excluded": "last"}}
    miner = {"name": "pos-percent", "share": 0.99, "depth": 10, "count": 8}
    kept["guarded"] = {**ANCE, "miner": miner, "filters": ["near-copies"]}
    kept["beside"] = {**ANCE, "refresh": {"policy": "every", "every": 3, "depth": 10, "negatives": 4}}
    return write_recipe(folder / "refreshed.yaml", {**tree, "stages": kept, "presets": {}})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))
