"""What stage `train-refreshed` learns from: by each policy, miner, choice and index."""

import pytest
from stages.train_refreshed.runs import make, uses, weights


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
    assert "4 a query of the model's own top 10, refreshed: synchronous, 4 steps" in card


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
