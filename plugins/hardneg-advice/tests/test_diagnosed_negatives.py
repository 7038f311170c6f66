"""Checks of mined negatives on four documents and a few lists, with shares by hand."""

from pathlib import Path

import numpy as np
import pytest
from handmade import HandmadeRun, collect, handmade, mine, ranked
from hardneg_advice.diagnose import above_positive, hidden_positives, near_copies
from hardneg_advice.finished_run import SAMPLED, sample

from hardneg.records import ArtifactError

TEN = "one two three four five six seven eight nine ten"
DOCUMENTS = [TEN, f"{TEN} eleven", "the old river by the bridge", "a violin in a quiet garden"]
"""Of the runs of four words of d0 and d1 seven of eight are in both: 0.875, above 0.8."""


@pytest.fixture
def run(tmp_path: Path, tiny_model: Path) -> HandmadeRun:
    return handmade(tmp_path, tiny_model)


def test_near_copies_of_a_positive_are_counted(run: HandmadeRun) -> None:
    collect(run, DOCUMENTS, {"train": ["q"]})
    mine(run, {"a": ranked(d1=1.0)}, {"a": (["d0"], ["d1", "d2", "d3"]), "b": (["d2"], ["d1"])})
    result = near_copies(run, "static")
    assert result.state == "suspect" and "near-copies" in result.advice
    assert result.figures == {"share": 1 / 4, "negatives": 4, "copies": 1}


def test_negatives_above_the_best_positive_are_counted_where_the_run_lists_one(run: HandmadeRun) -> None:
    lists = {"a": ranked(d1=3.0, d2=2.0, d0=1.0, d3=0.5), "b": ranked(d1=9.0), "c": ranked(d0=2.0, d1=1.0)}
    negatives = {"a": (["d0"], ["d1", "d2", "d3"]), "b": (["d0"], ["d1"]), "c": (["d0", "d9"], ["d1", "d8"])}
    mine(run, lists, negatives)
    result = above_positive(run, "static")
    assert result.state == "fine" and result.figures == {"share": 2 / 4, "negatives": 4, "above": 2}
    mine(run, {"a": lists["a"]}, {"a": (["d3"], ["d1", "d2", "d0"])})
    result = above_positive(run, "static")
    assert result.state == "suspect" and result.figures["share"] == 1.0


def test_queries_whose_positive_the_run_lacks_are_counted(run: HandmadeRun) -> None:
    lists = {"a": ranked(d0=3.0, d1=2.0), "b": ranked(d1=9.0)}
    three = {name: (["d0"], ["d1"]) for name in ("a", "b", "c")}
    mine(run, lists, three)
    result = hidden_positives(run, "static")
    assert result.state == "suspect" and result.figures == {"share": 2 / 3, "queries": 3, "depth": 2}
    mine(run, lists, {"a": three["a"]})
    assert hidden_positives(run, "static").state == "fine"


def test_negatives_that_were_not_mined_from_a_run_have_no_depth(tmp_path: Path, tiny_model: Path) -> None:
    drawn = {"stage": "mine", "miner": {"name": "random", "count": 2}}
    run = handmade(tmp_path, tiny_model, static=drawn)
    mine(run, {"a": ranked(d0=1.0)}, {"a": (["d0"], ["d1"])})
    for check in (hidden_positives, above_positive):
        with pytest.raises(ArtifactError, match="static does not mine from a run"):
            check(run, "static")


def test_a_sample_is_bounded_and_the_same_again() -> None:
    drawn = sample(50_000, "queries")
    assert len(set(drawn.tolist())) == SAMPLED and drawn.max() < 50_000
    assert np.array_equal(drawn, sample(50_000, "queries")) and not np.array_equal(drawn, sample(50_000, "vectors"))
    assert sample(3, "queries").tolist() == [0, 1, 2] and sample(0, "queries").tolist() == []
