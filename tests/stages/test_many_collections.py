"""A training on several collections, as a recipe says it: their stages, keys, mistakes, and what is made of them."""

from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection

from hardneg.formats.collection import StoredCollection
from hardneg.recipes import estimate, needs
from hardneg.records import RUN, RecipeError
from hardneg.stages.train import Train
from hardneg.store import Store
from hardneg.training.checkpoint import History

OPTIONS = {"max_steps": 4, "batch_size": 6, "learning_rate": 1e-3, "warmup_steps": 1}


@pytest.fixture
def tree(tmp_path: Path, tiny_model: Path) -> dict[str, Any]:
    """The small collection and half of it, each with random negatives of its own."""
    first, second = small_collection(tmp_path / "first"), small_collection(tmp_path / "second")
    for name, lines in {"corpus.jsonl": 30, "qrels/train.tsv": 13}.items():
        text = (second / name).read_text().splitlines()[:lines]
        (second / name).write_text("\n".join(text) + "\n")
    for split in ("dev", "test"):
        (second / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\nq20\td20\t1\n")
    mined = {"stage": "mine", "miner": {"name": "random", "count": 5}}
    return {
        "dataset": f"beir:{first}",
        "model": {"name": str(tiny_model), "query_length": 16, "document_length": 24},
        "stages": {
            "second": {"stage": "dataset", "loader": f"beir:{second}"},
            "first-negatives": mined,
            "second-negatives": {**mined, "dataset": "second"},
            "both": {
                "stage": "train",
                "loss": "star",
                "datasets": {"a": "first-negatives", "b": {"negatives": "second-negatives"}},
                "options": OPTIONS,
            },
        },
    }


def test_each_source_has_the_collection_of_its_negatives(tmp_path, tree):
    plan = plan_in(tmp_path, tree)
    assert plan.steps["both"].inputs == {
        "dataset": "dataset",
        "model": "start",
        "datasets.a.negatives": "first-negatives",
        "datasets.b.negatives": "second-negatives",
        "datasets.a.dataset": "dataset",
        "datasets.b.dataset": "second",
    }
    assert [need.subject.rsplit("/")[-1] for need in needs(plan) if need.category == "data"] == ["first", "second"]
    items = {row.step.name: row.items for row in estimate(plan, Store(tmp_path / "store"))}
    assert items["dataset"] > items["second"] > 0


def test_an_epoch_has_the_queries_of_all_sources(tmp_path, tree):
    """36 queries and 12: 48 / 6 steps, planned with the collections in the store and made."""
    plan, store = plan_in(tmp_path, tree, "stages.both.options.max_steps=null"), Store(tmp_path / "store")
    made = artifacts_of(plan, tmp_path / "store")["both"].facts["steps"]
    (planned,) = (row.items for row in estimate(plan, store) if row.step.name == "both")
    assert planned == made == 8


def test_a_training_on_two_collections(tmp_path, tree):
    own = ("mixing.temperature=2", "dims=[32, 8]", "precisions=[float32, binary]")
    plan = plan_in(tmp_path, tree, *(f"stages.both.{setting}" for setting in own))
    artifacts = artifacts_of(plan, tmp_path / "store")
    assert len(StoredCollection.open(artifacts["second"].path).corpus) == 30
    facts = artifacts["both"].facts
    assert facts["examples of a"] + facts["examples of b"] == 24
    assert len(History(artifacts["both"].path / "history.jsonl").read()) == 4
    card = (artifacts["both"].path / "model" / "README.md").read_text()
    a, b = facts["examples of a"], facts["examples of b"]
    assert f"- Dataset a: 60 passages, 36 queries; {a} examples\n" in card and a > b > 0
    assert f"- Dataset b: 30 passages, 12 queries; {b} examples\n" in card
    assert "- Mixing: temperature 2, mixed batches\n- Negatives: 1 per query, mined per source\n" in card
    assert "- Trained at: 32, 8 dimensions" in card and "- Trained for indexes of: float32, binary\n" in card


def test_in_batch_alone_and_documents_in_segments(tmp_path, tree):
    both = tree["stages"]["both"]
    sources = {"a": {"dataset": "dataset"}, "b": {"dataset": "second"}}
    tree["stages"]["both"] = {**both, "datasets": sources, "segments": {"length": 8, "count": 2}}
    tree["stages"]["both"]["options"] = {**OPTIONS, "negatives_per_query": 0}
    del tree["stages"]["first-negatives"], tree["stages"]["second-negatives"]
    assert artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")["both"].facts["steps"] == 4


def test_keys_follow_what_counts(tmp_path, tree):
    def key(*settings: str) -> str:
        return plan_in(tmp_path, tree, *settings).keys["both"]

    prefix = "stages.both."
    changed = {
        key(prefix + setting) for setting in ("mixing.temperature=2", "mixing.one_source=true", "options.seed=7")
    }
    assert len(changed | {key()}) == 4
    sources = tree["stages"]["both"]["datasets"]
    assert key(f"{prefix}mixing.temperature=1", f"{prefix}datasets.b.dataset=second") != ""
    tree["stages"]["both"]["datasets"] = dict(reversed(sources.items()))
    assert key() not in changed and key() == plan_in(tmp_path, tree, f"{prefix}mixing.temperature=1.0").keys["both"]


def test_a_training_on_one_collection_has_the_identity_that_it_had():
    plain = Train.model_validate({"stage": "train", "loss": "star", "negatives": "n"})
    assert {"datasets", "mixing"}.isdisjoint(plain.identity())
    sources = {"b": {"negatives": "n"}, "a": "m"}
    several = Train.model_validate({"stage": "train", "loss": "star", "datasets": sources})
    bare = {"query_prompt": None, "document_prompt": None, "cap": None}
    assert several.identity()["datasets"] == {"a": bare, "b": bare}


def test_all_mistakes_at_once(tmp_path, tree):
    tree["stages"]["both"] |= {
        "negatives": "first-negatives",
        "datasets": {
            "a": "first-negativs",
            "b": {"negatives": "second-negatives", "dataset": "dataset"},
            "c": {"dataset": "secnd"},
            "d": {},
        },
        "mixing": {"temperature": 0},
    }
    with pytest.raises(RecipeError) as raised:
        recipe_in(tmp_path, tree)
    at = "stages.both"
    missing = "missing; for in-batch negatives only, set options.negatives_per_query to 0"
    assert sorted(str(raised.value).splitlines()[1:]) == sorted(
        f"  {line}"
        for line in (
            f"{at}.datasets.a.negatives: no stage 'first-negativs'; did you mean 'first-negatives'?; expected a "
            "stage of type negatives",
            f"{at}.datasets.c.dataset: no stage 'secnd'; did you mean 'second'?; expected a stage of type collection",
            f"{at}.negatives: cannot be combined with datasets; remove one of them",
            f"{at}.mixing.temperature: must be above 0, not 0",
            f"{at}.datasets.b.dataset: 'second-negatives' was mined from 'second'; remove it",
            f"{at}.datasets.c.negatives: {missing}",
            f"{at}.datasets.d.negatives: missing; set it to a mining stage, or set `dataset` to a collection",
        )
    )


def test_prompts_of_a_collection_are_used_where_it_is_encoded_and_searched(tmp_path, tree, tiny_model):
    """The index and the run of a model that declares these prompts; only the vectors are compared, keys differ."""
    search = {"stage": "search", "index": "index", "split": "train", "depth": 5}
    stages = {"index": {"stage": "encode", "precision": "fp32"}, "run": search}
    own = {"index": {**stages["index"], "document_prompt": "read: "}, "run": {**search, "query_prompt": "find: "}}
    declared = {**tree["model"], "query_prompt": "find: ", "document_prompt": "read: "}
    runs, vectors = [], []
    for name, other in {
        "own": {**tree, "stages": own},
        "declared": {**tree, "model": declared, "stages": stages},
        "none": {**tree, "stages": stages},
    }.items():
        made = artifacts_of(plan_in(tmp_path, other), tmp_path / name)
        runs.append((made["run"].path / RUN).read_bytes())
        vectors.append((made["index"].path / "index").read_bytes())
    assert runs[0] == runs[1] != runs[2] and vectors[0] == vectors[1] != vectors[2]
