"""Negatives that stay while they are hard: the rule, the lists, and a training that is stopped and goes on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy import toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.mining.miners.ranks import TopK
from hardneg.records.errors import TrainingError
from hardneg.records.types import Candidates, Negatives, RankedList
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.mining import BEFORE, NOW, KeptWhileHard, Mining, has_decayed, mine_refresh
from hardneg.training.refresh.refresh_options import RefreshOptions

DECAYED = RefreshOptions("synchronous", 5, depth=10, negatives=3, choice="top", precision="fp32", replace="decayed")


def scores(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_negative_has_decayed_where_its_score_has_fallen_and_is_small():
    """1.15 * 0.6 is 0.69; 1.15 * 0.61 is 0.7015; 0.81 and more is hard, however far it fell."""
    first, now = scores(0.7, 0.7, 0.7, 1.2, 0.5, -0.2), scores(0.6, 0.61, 0.9, 0.81, -0.9, -0.2)
    assert has_decayed(first, now, 1.15, 0.8).tolist() == [True, False, False, False, False, True]
    assert has_decayed(first, now, 1.0, 2.0).tolist() == [True, True, False, True, True, False]


def query(had: dict[str, tuple[float, float]]) -> Candidates:
    """had: negatives with their scores when they were mined and now."""
    now = dict(sorted(((name, pair[1]) for name, pair in had.items()), key=lambda pair: -pair[1]))
    hits = {
        "dense": RankedList(["p", "a", "b", "x", "y", "z"], scores(0.9, 0.8, 0.7, 0.6, 0.5, 0.4)),
        BEFORE: RankedList(list(had), scores(*(pair[0] for pair in had.values()))),
        NOW: RankedList(list(now), scores(*now.values())),
    }
    return Candidates("q", ["p"], hits, [])


def mine(asked: Candidates) -> Negatives:
    (found,) = KeptWhileHard(TopK(6), DECAYED).mine([asked], seed=0)
    return found


def test_the_others_stay_with_the_scores_they_had_and_new_ones_come_behind():
    """b, mined at .7, is still at .7; d and a have fallen: a is in the list yet, and does not come back at once."""
    found = mine(query({"d": (0.6, 0.3), "b": (0.7, 0.7), "a": (0.79, 0.6)}))
    assert list(found.negatives) == ["b", "x", "y"]
    np.testing.assert_allclose(found.scores, [0.7, 0.6, 0.5], atol=1e-6)
    assert found.dropped == {"positive": 1, "decayed": 2}


def test_all_are_new_where_there_were_none_and_none_where_all_are_hard():
    first = replace(query({}), hits={"dense": query({}).hits["dense"]})
    assert list(mine(first).negatives) == ["a", "b", "x"]
    kept = mine(query({"d": (0.6, 0.6), "b": (0.7, 0.85), "a": (0.79, 0.7)}))
    assert list(kept.negatives) == ["d", "b", "a"] and not kept.dropped.get("decayed")


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")


def refresh(encoder: Encoder, toy: Path, place: RefreshFolder, number: int, options: RefreshOptions) -> NegativesFile:
    data = replace(toy_data(toy), negatives=None)
    mine_refresh([encoder], Mining(data, options, 1), place, number, number * 5)
    return read_negatives(place.negatives(number))


def test_a_refresh_scores_what_the_one_before_has_mined_by_the_model_as_it_is(encoder, toy_folder, tmp_path):
    """The same model: nothing has fallen by 15 %. With a decay of .5, half a score is less: all have, and all go."""
    place = RefreshFolder(tmp_path)
    first = refresh(encoder, toy_folder, place, 0, DECAYED)
    again = refresh(encoder, toy_folder, place, 1, DECAYED)
    for one, two in zip(first, again, strict=True):
        hard = [doc_id for doc_id, score in zip(one.negatives, one.scores.tolist(), strict=True) if score > 0]
        assert list(two.negatives)[: len(hard)] == hard and len(two.negatives) == 3
    gone = refresh(encoder, toy_folder, place, 2, replace(DECAYED, decay=0.5, easy_below=2.0))
    for one, two in zip(again, gone, strict=True):
        assert not {i for i, s in zip(one.negatives, one.scores.tolist(), strict=True) if s > 0} & {*two.negatives}
        assert len(two.negatives) == 3


def test_what_it_goes_on_from_must_be_there(encoder, toy_folder, tmp_path):
    with pytest.raises(TrainingError, match="the negatives that refresh 3 updates are gone: remove its parent"):
        refresh(encoder, toy_folder, RefreshFolder(tmp_path), 3, DECAYED)


def test_options_of_decay_and_what_does_not_go_with_them():
    plain = RefreshOptions("synchronous", 5)
    assert not {"replace", "decay", "easy_below"} & {*plain.identity()}
    assert DECAYED.problems() == [] and DECAYED.identity()["replace"] == "decayed"
    assert "decay" not in DECAYED.identity() and replace(DECAYED, decay=1.2).identity()["decay"] == 1.2
    told = {
        replace(DECAYED, decay=0.0): "decay must be above 0, not 0.0",
        replace(DECAYED, query_chunks=2): "replace decayed goes on from what the last refresh mined: leave out query_c",
        replace(DECAYED, policy="never", every=None): "policy never mines once, and replaces nothing: leave replace",
        replace(plain, decay=2.0): "decay and easy_below go with replace: decayed; leave them out, or give that too",
    }
    for options, line in told.items():
        (found,) = options.problems()
        assert found.startswith(line)
