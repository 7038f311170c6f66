"""The dev metrics on a pool, against hand-computed numbers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import BagEncoder, options, toy_data

from hardneg.losses.pairwise import Star
from hardneg.records import errors, types
from hardneg.runtime import Silent
from hardneg.training import validation
from hardneg.training.methods.dual_encoder import train


def test_metrics_are_those_computed_by_hand() -> None:
    """Query 0 finds its gain 2 first and its gain 1 third; query 1 finds its only one second, after a tie."""
    pool = validation.Pool(
        rows=np.arange(4),
        texts=["a", "b"],
        gains=np.array([1, 2, 1]),
        query=np.array([0, 0, 1]),
        position=np.array([2, 0, 3]),
    )
    queries = np.eye(2, dtype=np.float32)
    documents = np.array([[4, 0], [3, 5], [2, 0], [1, 5]], np.float32)
    found = validation.pool_metrics(queries, documents, pool)
    first = (2 + 1 / 2) / (2 + 1 / math.log2(3))
    assert found["mrr@10"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["ndcg@10"] == pytest.approx((first + 1 / math.log2(3)) / 2)
    assert found["recall@100"] == 1


def test_cut_offs_count() -> None:
    pool = validation.Pool(np.arange(150), ["a", "b"], np.ones(2, np.int64), np.array([0, 1]), np.array([10, 120]))
    scores = np.arange(150, 0, -1, dtype=np.float32)[:, None]
    found = validation.pool_metrics(np.ones((2, 1), np.float32), scores, pool)
    assert found == {"mrr@10": 0, "ndcg@10": 0, "recall@100": 0.5}


def dev_data(toy: Path, **more: Any) -> validation.ValidationData:
    data = toy_data(toy)
    lists = [["n3", "p4", "n5"], ["n1"], ["n20"]]
    named = zip(("q1", "q2", "other"), lists, strict=True)
    run = {query_id: types.RankedList(ids, np.zeros(len(ids), np.float32)) for query_id, ids in named}
    fields: dict[str, Any] = {
        "query_ids": ["q1", "q2", "q3"],
        "texts": ["one", "two", "three"],
        "qrels": {"q1": {"p1": 1, "n7": 0}, "q2": {"extra2": 1, "p2": 2, "unknown": 1}},
        "run": run,
    }
    return validation.ValidationData(data.corpus, **{**fields, **more})


def test_the_pool_is_positives_and_the_top_of_the_run(toy_folder: Path) -> None:
    data = dev_data(toy_folder)
    pool = validation.make_pool(data, depth=2)
    names = [data.corpus.doc_ids[row] for row in pool.rows.tolist()]
    assert sorted(names) == ["extra2", "n1", "n3", "p1", "p2", "p4"]
    assert pool.texts == ["one", "two"]
    assert [names[place] for place in pool.position.tolist()[:3]] == ["p1", "extra2", "p2"]
    assert pool.position[3] == -1  # the corpus lacks it
    assert pool.query.tolist() == [0, 1, 1, 1]
    assert pool.gains.tolist() == [1, 1, 2, 1]


def test_what_the_corpus_lacks_is_missed() -> None:
    pool = validation.Pool(np.arange(2), ["a", "b"], np.ones(3, np.int64), np.array([0, 0, 1]), np.array([1, -1, -1]))
    found = validation.pool_metrics(np.ones((2, 1), np.float32), np.array([[1], [2]], np.float32), pool)
    ideal = 1 + 1 / math.log2(3)
    assert found == {"mrr@10": 0.5, "ndcg@10": pytest.approx(1 / ideal / 2), "recall@100": 0.25}


def test_nothing_relevant_is_an_error(toy_folder: Path) -> None:
    with pytest.raises(errors.TrainingError, match="no dev query has a relevant document"):
        validation.make_pool(dev_data(toy_folder, qrels={"q1": {"p1": 0}}), depth=2)


def test_training_raises_the_dev_metric(toy_folder: Path, tmp_path: Path) -> None:
    encoder: Any = BagEncoder()
    data = toy_data(toy_folder)
    qrels = {query_id: dict.fromkeys(doc_ids, 1) for query_id, doc_ids in data.positives.items()}
    ranked = [[f"n{i}" for i in range(21)]]
    run = {"q0": types.RankedList(ranked[0], np.zeros(21, np.float32))}
    dev = validation.ValidationData(data.corpus, data.query_ids, data.texts, qrels, run)
    validate = validation.pool_validation(encoder, dev, depth=21)
    before = validate()
    chosen = options(max_steps=40, evaluate_every=10, checkpoint_every=None)
    result = train(encoder, data, Star(), chosen, tmp_path, progress=Silent(), validate=validate)
    assert result.best is not None
    assert result.best > before["mrr@10"] + 0.2
    assert validate()["mrr@10"] == result.best
    assert sum("dev" in record for record in result.history) == 4
