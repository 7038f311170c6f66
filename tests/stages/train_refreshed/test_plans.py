"""Plans with `train-refreshed`: what they take, their keys, and what is refused before the first step."""

import pytest
from stages.train_refreshed.runs import make

from hardneg.recipes import Options, Watcher, estimate, execute, load_recipe, make_plan
from hardneg.records import RecipeError
from hardneg.store import Store


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
        ("refresh.every=null", "stages.ance.refresh: policy synchronous: give every"),
        ("refresh.deep=5", "stages.ance.refresh.deep: no such option; did you mean 'depth'"),
        ("refresh.policy=sometimes", "stages.ance.refresh.policy: must be 'every' or 'synchronous'"),
        ("refresh=null", "stages.ance.refresh: must be a mapping of names to values (got None)"),
        ("devices.trainer=0", "stages.ance.devices: trainer must be 1 or above"),
        ("miner=union", "stages.ance.miner: union joins several runs: give another one, or take miner sampled"),
        ("miner=pos-persent", "no miners plugin is called 'pos-persent'; did you mean 'pos-percent'"),
        ("filters=[nearcopies]", "filters.0: no filters plugin is called 'nearcopies'; did you mean 'near-copies'"),
        ("backend=bm25", "stages.ance.backend: bm25 is built from texts, which no refresh changes; leave it out"),
        ("backend=multi-vector", "backend: multi-vector is built from a vector a token, and the recipe's model"),
        ("backend={name: hnsw, m: 1}", "hnsw: m is 1"),
        ("negatives=start-train", "stages.ance.negatives: 'start-train' makes run, but negatives is needed"),
    ],
)
def test_mistakes_are_told_before_anything_runs(recipe, setting, told):
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe, settings=[f"stages.ance.{setting}"])
    assert told in str(caught.value)


def test_a_miner_goes_without_choice(recipe):
    settings = ["stages.ance.miner=topk", "stages.ance.refresh.choice=top"]
    with pytest.raises(RecipeError, match=r"ance: .*refresh.choice: does not go with miner, which sets what is chosen"):
        load_recipe(recipe, settings=settings)
