"""Stage `mine` with a second run's scores."""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from recipes.recipes import stored_collection

from hardneg.formats.negatives import drop_batches, drops_at, read_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.miners.ranks import TopK
from hardneg.mining.miners.thresholds import Denoised, PosMargin
from hardneg.records.errors import DataError
from hardneg.records.types import RankedList
from hardneg.runtime.progress import Silent
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.mine import Mine
from tests.run_lists import falling

DENSE = {"q0": ["d0", "d1", "d2", "d3"], "q1": ["d5", "d4", "d1"], "q3": ["d9"]}
SCORES = {"q0": {"d1": 0.99, "d0": 0.5, "d3": 0.01, "d2": 0.0}, "q1": {"d4": 0.3, "d5": 0.2}, "q3": {"d3": 0.9}}


@pytest.fixture
def mined(tmp_path):
    """Mines, and gives the facts, the negatives by query, and the folder."""
    stored_collection(tmp_path)
    lists = {name: tmp_path / name for name in ("dense", "rerank")}
    for folder in (*lists.values(), tmp_path / "out"):
        folder.mkdir()
    write_run(lists["dense"] / "run.trec.gz", falling(DENSE).items())
    scored = {name: RankedList(list(each), np.array(list(each.values()), np.float32)) for name, each in SCORES.items()}
    write_run(lists["rerank"] / "run.trec.gz", scored.items())

    def run(miner, **options):
        options = {"runs": {"dense": "a", "scores": "b"}} | options
        spec = Mine(stage="mine", miner="denoised", **options)
        runs = {"runs.dense": ArtifactInput("a", "", lists["dense"])}
        runs["runs.scores"] = ArtifactInput("b", "", lists["rerank"])
        runs = runs if spec.runs else {}
        inputs = {"dataset": ArtifactInput("dataset", "", tmp_path / "stored"), **runs}
        folder = Path(mkdtemp(dir=tmp_path / "out"))
        facts = spec.make(StageContext("mined", spec, folder, inputs, {"miner": miner}, Silent()))
        found = {item.query_id: list(item.negatives) for item in read_negatives(folder / "negatives.arrow")}
        return facts, found, folder / "dropped.arrow"

    return run


def test_the_run_labelled_scores_decides_and_what_it_drops_is_recorded(mined):
    facts, found, dropped = mined(Denoised())
    assert found["q0"] == ["d2", "d3"] and found["q1"] == []
    reasons = {name: facts[f"dropped as {name}"] for name in ("positive", "score", "unscored")}
    assert reasons == {"positive": 2, "score": 3, "unscored": 1}
    (batch,) = drop_batches(dropped)
    assert batch.num_rows == facts["queries"] == 36
    query_id, drops = drops_at(batch, 0)
    assert query_id == "q0" and drops.candidates == 4
    assert drops.doc_ids == ["d0", "d1"] and drops.reasons == ["positive", "score"]
    assert drops.scores.tolist() == [0.5, pytest.approx(0.99)] and drops.chosen.tolist() == [3, 4]


def test_queries_without_a_scored_positive_are_counted(mined):
    facts, found, _ = mined(PosMargin(margin=0.2))
    assert found["q0"] == ["d2", "d3"] and found["q1"] == []
    assert facts["queries with no scored positive"] == 34
    facts, found, _ = mined(PosMargin(margin=0.2, without_positive="keep"))
    assert found["q1"] == ["d5", "d4"] and facts["queries with no scored positive"] == 34


def test_a_miner_that_tells_nothing_writes_no_record(mined):
    facts, found, dropped = mined(TopK(depth=2))
    assert found["q0"] == ["d1", "d2"] and facts["dropped as positive"] == 1
    assert not dropped.exists()


def test_positives_of_other_queries_stand_in_for_a_run(mined):
    facts, negatives, _ = mined(TopK(depth=3), runs={}, positives_of_others=3)
    assert facts["queries"] == 36 and all(len(drawn) == 3 for drawn in negatives.values())
    facts, negatives, _ = mined(TopK(depth=3), permuted=True)
    assert sum(map(len, negatives.values())) <= 3 + 3 + 1 and facts["queries"] == 36


def test_controls_that_the_lists_do_not_allow_are_refused(mined):
    with pytest.raises(DataError, match="mined: planted: the dataset withholds no positives of these queries; give it"):
        mined(TopK(depth=3), planted=0.5)
    for options, message in (
        ({"permuted": True}, "permuted and planted change the lists of `runs`, and there are none"),
        ({"runs": {"dense": "a"}, "positives_of_others": 3}, "positives_of_others: they are drawn in place of `runs`"),
        ({"file": "n", "positives_of_others": 3}, "positives_of_others: they are drawn in place of `runs` and `file`"),
    ):
        with pytest.raises(ValueError, match=message):
            Mine(stage="mine", miner="topk", **options)
