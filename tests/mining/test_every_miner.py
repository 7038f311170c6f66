"""Every installed miner, by itself and in each way of mining: what it takes of the same lists is the same.

The ways are the verb `mine`, whose negatives are ADORE's static lists too, `train-refreshed`, and the trainer of
sentence-transformers.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from recipes.recipes import small_tree, stored_collection, write_recipe
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import parse_setting
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import candidates
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.formats.qrels import positives
from hardneg.integrations.refresher import mine_with
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.records import RankedList, RecipeError, TrainingError, UsageError
from hardneg.registry import configure, list_plugins, load_plugin
from hardneg.runtime import SEED, derive_seed
from hardneg.store import Artifact, Store
from hardneg.trainer import RefreshedNegatives
from hardneg.training.checkpoint import RefreshFolder
from hardneg.training.examples import TrainingData
from hardneg.training.methods import adore, ance
from hardneg.training.refresh import Settings, mine_refresh

GIVEN: Mapping[str, Mapping[str, Any]] = {
    "denoised": {"below": 0.5},
    "max-score": {"highest": 0.6},
    "pos-margin": {"margin": 0.05},
    "pos-percent": {"share": 0.8},
    "window": {"skip": 2, "depth": 9},
    "random": {"count": 5},
    "sampled": {"count": 4},
    "simans": {"count": 4},
}
"""Options that a miner cannot do without, or by which it takes others here than all other miners."""

MINERS = sorted({plugin.name for plugin in list_plugins("miners") if not plugin.problem})
JOINING = [name for name in MINERS if hasattr(load_plugin("miners", name), "problems")]
"""Those that select from several runs; a model that mines has one."""


def setting(name: str) -> dict[str, Any]:
    return {"name": name, **GIVEN.get(name, {})}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredCollection:
    return StoredCollection.open(stored_collection(tmp_path_factory.mktemp("every")))


@pytest.fixture(scope="module")
def tree(stored: StoredCollection, tiny_model: Path) -> dict[str, Any]:
    tree = small_tree(stored.folder.parent / "data", tiny_model)
    runs = {"dense": "start-train", "again": "start-train"}
    refreshed = {"stage": "train-refreshed", "loss": "infonce"}
    refreshed["refresh"] = {"policy": "synchronous", "every": 9, "depth": 15, "negatives": 3}
    refreshed["options"] = {"batch_size": 4, "max_steps": 1, "precision": "fp32"}
    stages = {name: tree["stages"][name] for name in ("start-index", "start-train")}
    return {**tree, "stages": {**stages, "mined": {"stage": "mine", "runs": runs}, "ance": refreshed}, "presets": {}}


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def make(folder: Path, tree: dict[str, Any], store: Store, stage: str, **more: Any) -> Artifact:
    stages = {name: each for name, each in tree["stages"].items() if name in ("start-index", "start-train", stage)}
    stages[stage] = {**stages[stage], **more}
    path = write_recipe(folder / "every.yaml", {**tree, "stages": stages})
    plan = make_plan(load_recipe(path))
    return execute(plan, store, Options(device="cpu", until=stage), Watcher()).artifacts[stage]


@pytest.fixture(scope="module")
def scores(stored: StoredCollection, encoder: Encoder) -> NDArray[np.float32]:
    """Of all 60 documents for each training query, exactly: float32 [36, 60]."""
    documents = encoder.encode(stored.corpus.contents(np.arange(60)), "document")
    exact: NDArray[np.float32] = encoder.encode(stored.queries("train").texts, "query") @ documents.T
    return exact


def alone(
    name: str, scores: NDArray[np.float32], stored: StoredCollection, depth: int, seed: int, *runs: str
) -> dict[str, list[str]]:
    """What a miner takes, called by itself on the best documents of each query: its negatives.

    runs: labels of the runs that all have these lists; without any, positives that are compared with have a score.
    """
    corpus, query_ids, known = stored.corpus, stored.queries("train").query_ids, positives(stored.all_qrels())
    miner, items = configure("miners", parse_setting(setting(name))), []
    for query_id, row in zip(query_ids, scores, strict=True):
        rows = np.argsort(-row, kind="stable")[:depth]
        if getattr(miner, "compares", False) and not runs:
            rows = np.append(rows, np.setdiff1d(corpus.rows(known[query_id]), rows))
        ranked = RankedList(corpus.ids(rows), row[rows])
        items.append(candidates(corpus, query_id, known[query_id], dict.fromkeys(runs or ["dense"], ranked)))
    return {item.query_id: list(item.negatives) for item in miner.mine(items, seed=seed)}


def mined_lists(file: NegativesFile) -> dict[str, list[str]]:
    assert len(file) == 36 and sum(file.counts) > 0
    return {item.query_id: list(item.negatives) for item in file}


def test_there_are_those_of_hardneg_at_least_and_each_takes_its_own(scores, stored):
    assert {"topk", "pos-percent", "simans", "union", "mixed"} <= {*MINERS} and len(MINERS) >= 11
    taken = {name: str(alone(name, scores, stored, 15, 7)) for name in MINERS}
    assert len({*taken.values()}) == len(MINERS)


@pytest.mark.parametrize("name", MINERS)
def test_the_verb_mine(name, tree, store, stored, tmp_path, scores):
    """And ADORE's static lists, which are the first of its negatives."""
    file = read_negatives(make(tmp_path, tree, store, "mined", miner=setting(name)).path / "negatives.arrow")
    expected = alone(name, scores, stored, 20, SEED, "dense", "again")
    assert mined_lists(file) == expected
    queries = stored.queries("train")
    data = TrainingData(stored.corpus, queries.query_ids, queries.texts, positives(stored.all_qrels()))
    (lists,) = adore.mined_lists(data, file, 4)()
    static = [stored.corpus.ids(rows[rows >= 0]) for rows in lists]
    assert static == [expected[query_id][:4] for query_id in queries.query_ids]


@pytest.mark.parametrize("name", MINERS)
def test_train_refreshed(name, tree, stored, tmp_path, encoder, scores):
    """As its recipe says it, by what mines in it; positives that the search has missed have scores all the same."""
    stages = {"ance": {**tree["stages"]["ance"], "miner": setting(name)}}
    path = write_recipe(tmp_path / "every.yaml", {**tree, "stages": stages})
    if name in JOINING:
        with pytest.raises(RecipeError, match=r"stages.ance.miner: union needs several runs"):
            load_recipe(path)
        return
    spec: Any = load_recipe(path).stages["ance"]
    folder = RefreshFolder(tmp_path / "refreshes")
    folders = {"collection": str(stored.folder), "checkpoints": str(tmp_path), "refreshes": str(folder.folder)}
    chosen = {"options": spec.refresh, "miner": spec.miner, "filters": spec.filters, "split": spec.split}
    settings = Settings(model=encoder.spec, seed=1, first=0, devices=["cpu"], threads=1, **folders, **chosen)
    refresh = mine_refresh([encoder], settings.mining(), folder, 0, 0)
    assert refresh is not None and "dropped as no scored positive" not in refresh.counts
    expected = alone(name, scores, stored, 15, derive_seed(1, "refresh", 0))
    assert mined_lists(read_negatives(folder.negatives(0))) == {query: ids[:3] for query, ids in expected.items()}


@pytest.mark.parametrize("policy", ["synchronous", "every"])
def test_train_refreshed_mines_so_itself_and_has_another_process_mine_so(policy, tree, store, tmp_path, monkeypatch):
    """The first with its miner itself, the second by the settings that `test_train_refreshed` reads."""
    miners = []

    def stop(miner: object) -> None:
        miners.append(miner)
        raise TrainingError("enough")

    monkeypatch.setattr(ance, "mine_refresh", lambda encoders, mining, *more: stop(mining.miner))
    monkeypatch.setattr(ance.Process, "start", lambda process: stop(process._settings.miner))
    options = {
        "options": {"max_steps": 2, "checkpoint_every": 1},
        "refresh": {"depth": 15, "negatives": 3, "every": 9, "policy": policy},
    }
    with pytest.raises(TrainingError, match="enough"):
        make(tmp_path, tree, store, "ance", miner=setting("window"), **options)
    parsed = parse_setting(setting("window"))
    assert miners == [configure("miners", parsed) if policy == "synchronous" else parsed]


@pytest.mark.parametrize("name", MINERS)
def test_the_trainer(name, tree, store, stored, tmp_path, tiny_model, scores):
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=7)
    options: Any = {"depth": 15, "store": store.root, "miner": setting(name)}
    options["settings"] = {"model.query_length": 16, "model.document_length": 24}
    negatives = RefreshedNegatives(tree["dataset"], arguments, **options)
    if name in JOINING:
        with pytest.raises(RecipeError, match="union needs several runs"):
            negatives.recipe.plan(str(tiny_model), 7)
        return
    recipe = replace(negatives.recipe, fill_to=None)
    refresh = mine_with(recipe, recipe.plan(str(tiny_model), 7), negatives.session)
    assert refresh is not None
    mined, _ = refresh
    assert "queries with no scored positive" not in mined.facts
    file = read_negatives(mined.path / "negatives.arrow")
    assert mined_lists(file) == alone(name, scores, stored, 15, 7)


def test_filters_go_before_the_miner_in_all_three(tree, store, tmp_path, tiny_model):
    """What the miner would take first scores too high."""
    first = read_negatives(make(tmp_path, tree, store, "mined", miner=setting("topk")).path / "negatives.arrow")
    highest = float(np.median(np.concatenate([item.scores for item in first])))
    filters = [{"name": "scores", "rule": "max-score", "threshold": highest}]
    mined = make(tmp_path, tree, store, "mined", miner=setting("topk"), filters=filters)
    for one, two in zip(first, read_negatives(mined.path / "negatives.arrow"), strict=True):
        named = zip(one.negatives, one.scores, strict=True)
        left = [doc_id for doc_id, score in named if score <= highest]
        assert two.negatives[: len(left)] == left
    assert mined.facts["dropped as score"] > 36
    refreshed = make(tmp_path, tree, store, "ance", filters=filters)
    assert refreshed.facts["dropped as score"] > 0
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=7)
    given: Any = {"depth": 15, "store": store.root, "filters": filters}
    recipe = RefreshedNegatives(tree["dataset"], arguments, **given).recipe
    session = RefreshedNegatives(tree["dataset"], arguments, **given).session
    made = mine_with(recipe, recipe.plan(str(tiny_model), 7), session)
    assert made is not None and made[0].facts["dropped as score"] > 0
    without = replace(recipe, filters=()).plan(str(tiny_model), 7).keys
    assert recipe.plan(str(tiny_model), 7).keys["negatives"] != without["negatives"]


def test_the_function_and_the_command_take_filters(tree, tmp_path):
    run, written = tmp_path / "run.trec", tmp_path / "mined.arrow"
    run.write_text("".join(f"q0 Q0 d{rank} {rank + 1} {9 - rank} x\n" for rank in range(5)))
    low = {"name": "scores", "rule": "max-score", "threshold": 7.5}
    mined = hn.mine(tree["dataset"], run=run, filters=["near-copies", low], store=tmp_path / "store")
    assert list(mined["q0"].negatives) == ["d2", "d3", "d4"] and mined.facts["dropped as score"] == 1
    given = ["mine", "--dataset", tree["dataset"], "--run", str(run), "--store", str(tmp_path / "store")]
    filters = ["--filter", "near-copies", "--filter", "{name: scores, rule: max-score, threshold: 7.5}"]
    done = CliRunner().invoke(app, [*given, *filters, "--form", "hardneg", "--count", "3", "--output", str(written)])
    assert done.exit_code == 0, done.output
    assert list(read_negatives(written)[0].negatives) == ["d2", "d3", "d4"]
    with pytest.raises(UsageError, match="filters: must be a name, or a dict with `name` and options"):
        hn.mine(tree["dataset"], run=run, filters=[3], store=tmp_path / "store")  # type: ignore[list-item]
