"""A recipe whose index lies in shards makes the artifacts of one in a folder, whatever stops it."""

import os
import signal
import sys
from pathlib import Path

import forked
import pytest
from processes import codes, launch
from recipe.recipes import large_collection, small_collection, write_recipe
from tiny import tiny_static

from hardneg.encoders.corpus import stream
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.records.errors import RecipeError
from hardneg.store.artifacts import Store

KILLING = Path(__file__).parents[1] / "verbs/killed.py"
MADE = {"test": "run.trec.gz", "ranked": "run.trec.gz", "small-test": "run.trec.gz", "mined": "negatives.arrow"}


def tree(data: Path, model: Path, **index: object) -> dict[str, object]:
    search = {"stage": "search", "index": "index", "depth": 20}
    stages = {
        "index": {"stage": "encode", **index},
        "small": {"stage": "index", "backend": {"name": "sq8"}, "vectors": "index"},
        "test": {**search, "split": "test"},
        "train": {**search, "split": "train", "positives": True},
        "ranked": {"stage": "search", "index": "index", "candidates": "test", "depth": 10},
        "small-test": {**search, "index": "small", "split": "test"},
        "mined": {"stage": "mine", "runs": {"dense": "train"}, "miner": {"name": "topk", "depth": 10}},
    }
    return {"dataset": f"beir:{data}", "model": {"name": str(model)}, "stages": stages}


def run(recipe: Path, store: Path) -> dict[str, Path]:
    found = execute(make_plan(load_recipe(recipe)), Store(store), Options(device="cpu"), Watcher())
    return {name: artifact.path for name, artifact in found.artifacts.items()}


def test_what_is_made_from_shards_is_the_same(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(stream, "BLOCK", 8)
    data, model = small_collection(tmp_path / "data"), tiny_static(tmp_path / "model")
    one = run(write_recipe(tmp_path / "one.yaml", tree(data, model)), tmp_path / "one")
    several = run(write_recipe(tmp_path / "s.yaml", tree(data, model, shard_rows=13)), tmp_path / "several")
    assert (several["index"] / "shards.json").exists() and not (several["index"] / "index").exists()
    assert {name: path.name for name, path in one.items()} == {name: path.name for name, path in several.items()}
    for name, file in MADE.items():
        assert (one[name] / file).read_bytes() == (several[name] / file).read_bytes(), name


def test_shards_at_urls_of_earlier_recipes_are_an_unknown_option(tmp_path):
    recipe = write_recipe(tmp_path / "old.yaml", tree(tmp_path, tmp_path, shards=2, place="s3://bucket/x", take=":1"))
    with pytest.raises(RecipeError, match=r"stages\.index\.place: (.|\n)*stages\.index\.take: "):
        load_recipe(recipe)


@pytest.mark.slow
def test_killed_searches_and_two_processes_give_the_same_run(tmp_path):
    data, model = large_collection(tmp_path / "data"), tiny_static(tmp_path / "model")
    one = run(write_recipe(tmp_path / "one.yaml", tree(data, model)), tmp_path / "one")
    recipe = write_recipe(tmp_path / "several.yaml", tree(data, model, shards=3))
    roots = [Path(__file__).parents[2], Path(__file__).parents[1]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, roots))}
    for title, count in (("encode corpus", 2), ("search", 1), ("searching", 3)):
        dying = [sys.executable, str(KILLING), str(recipe), str(tmp_path / "killed"), title, str(count)]
        assert forked.run(dying, env=environment).returncode == -signal.SIGKILL, (title, count)
    key = make_plan(load_recipe(recipe)).steps["train"].key
    assert len(list((tmp_path / "killed").glob(f"{key}.partial/checkpoints/blocks/*.npz"))) >= 1
    command = ["-m", "hardneg", "recipe", "run", recipe, "--device", "cpu"]
    assert codes(launch([*command, "--store", tmp_path / "two", "--output", tmp_path / "out"], 2)) == [0, 0]
    for store in ("killed", "two"):
        made = run(recipe, tmp_path / store)
        assert len(list(made["index"].glob("shard-*"))) == 3
        assert not list((tmp_path / store).glob("*/checkpoints"))
        for name, file in MADE.items():
            assert (one[name] / file).read_bytes() == (made[name] / file).read_bytes(), (store, name)
