"""An index in shards is the same index: ids and scores to the bit, for each form, however it is cut."""

from pathlib import Path

import numpy as np
import pytest
from encoded_forms import FORMS, drawn_queries
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes.shards.parts import COUNT, documents
from shard_folders import in_shards

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.backends.flat import Flat
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.open_store import DenseIndex, form_in, open_store
from hardneg.runtime import Silent


def found(folder: Path, form: str, k: int = 20):
    queries = drawn_queries(form, documents(form), exact=False)
    searcher = open_store(folder, ExactOptions(device="cpu", corpus_block=64))
    candidates = np.random.default_rng(5).integers(0, COUNT, (len(queries), 30))
    return searcher.search(queries, k), rank_candidates(searcher, queries, candidates, 10)


def check_same(one: Path, other: Path, form: str) -> None:
    for mine, theirs in zip(found(one, form), found(other, form), strict=True):
        assert mine.rows.tobytes() == theirs.rows.tobytes() and mine.scores.tobytes() == theirs.scores.tobytes()
    same = (one / "docid").read_bytes() == (other / "docid").read_bytes()
    assert same and form_in(one) == form_in(other) == form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cuts", [[], [150], [43, 86, 86, 170, 171, 299]])
def test_one_two_and_seven_shards_are_one(whole, tmp_path, form, cuts):
    check_same(whole[form], in_shards(whole[form], tmp_path, cuts), form)


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, COUNT), max_size=9).map(sorted))
@settings(max_examples=4, deadline=None)
def test_any_partition_is_one(whole, tmp_path_factory, form, cuts):
    check_same(whole[form], in_shards(whole[form], tmp_path_factory.mktemp("cut"), cuts), form)


def test_shards_are_indexes_by_themselves_and_rows_go_on_from_one_to_the_next(whole, tmp_path):
    shards = in_shards(whole["vectors"], tmp_path, [100, 250])
    all_, third = FlatVectors.open(whole["vectors"]).vectors, FlatVectors.open(shards / "shard-00002")
    assert third.doc_ids[0] == "d250" and third.vectors.tobytes() == all_[250:].tobytes()
    opened = FlatVectors.open(shards)
    assert opened.read(90, 260).tobytes() == all_[90:260].tobytes()
    assert opened.gather(np.array([299, 0, 100, 99, 0])).tobytes() == all_[[299, 0, 100, 99, 0]].tobytes()
    assert DenseIndex.open(shards).doc_ids[299] == "d299"


@pytest.mark.parametrize("form", FORMS)
def test_a_linked_copy_has_the_shards(whole, tmp_path, form):
    shards = in_shards(whole[form], tmp_path / "a", [7, 200])
    store = open_store(shards)
    if form == "vectors":
        assert Flat().build(shards, tmp_path / "b", Silent()) == COUNT
    else:
        store.store.link(tmp_path / "b")
    check_same(shards, tmp_path / "b", form)
