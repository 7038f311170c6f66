"""An index in shards is the same index: ids and scores to the bit, for each form, however it is cut."""

from pathlib import Path

import numpy as np
import pytest
from encoded_forms import FORMS, drawn_documents, drawn_queries, write_encoded
from hypothesis import given, settings, strategies as st
from shard_folders import in_shards

from hardneg.formats.vectors import FlatVectors, Shards
from hardneg.indexes.candidate_scoring import rank_candidates
from hardneg.indexes.exact import ExactOptions, Flat
from hardneg.indexes.open_store import DenseIndex, form_in, open_store
from hardneg.records import SHARDS, ArtifactError
from hardneg.runtime import Silent

COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return {form: write_encoded(folder / form, drawn_documents(form, COUNT, 8, exact=False)) for form in FORMS}


def found(folder: Path, form: str, k: int = 20):
    queries = drawn_queries(form, drawn_documents(form, COUNT, 8, exact=False), exact=False)
    searcher = open_store(folder, ExactOptions(device="cpu", corpus_block=64))
    candidates = np.random.default_rng(5).integers(0, COUNT, (len(queries), 30))
    return searcher.search(queries, k), rank_candidates(searcher, queries, candidates, 10)


def check_same(one: Path, other: Path, form: str) -> None:
    for mine, theirs in zip(found(one, form), found(other, form), strict=True):
        assert mine.rows.tobytes() == theirs.rows.tobytes() and mine.scores.tobytes() == theirs.scores.tobytes()
    same = (one / "docid").read_bytes() == (other / "docid").read_bytes()
    assert same and form_in(one) == form_in(other) == form


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, COUNT), max_size=9).map(sorted))
@settings(max_examples=6, deadline=None)
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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-9], "damaged"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "upgrade hardneg"),
        (lambda text: text.replace("shard-00001", "../elsewhere"), "is not the name of a folder"),
        (lambda text: text.replace("shard-00001", "s3://bucket/shard-00001"), "'s3://.*' is not the name of a folder"),
        (lambda text: text.replace('"rows": 150', '"rows": 151'), "expected 151 vectors of .* 8, found 150 of 8"),
    ],
)
def test_a_damaged_list_is_told(whole, tmp_path, change, told):
    shards = in_shards(whole["vectors"], tmp_path, [150])
    (shards / SHARDS).write_text(change((shards / SHARDS).read_text()))
    with pytest.raises(ArtifactError, match=told):
        FlatVectors.open(shards).read(0, COUNT)
    assert Shards.of(whole["vectors"]) is None
