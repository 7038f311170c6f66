"""What hardneg's own tests ask of each form of encodings and each family, asked of weights of terms."""

from pathlib import Path

import numpy as np
import pytest
from hardneg_sparse import exact
from hardneg_sparse.flops import Flops
from hardneg_sparse.store import SparseRows, SparseStore, SparseWriter
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_lists import rows_of
from tiny import tiny_sparse_encoder
from toy import write_toy
from weight_forms import WeightForms

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.indexes.open_store import form_in, open_store
from hardneg.losses.infonce import InfoNCE
from hardneg.records.errors import ModelError
from hardneg.records.types import PluginSetting
from hardneg.training.loss_terms import LossTerms
from tests.encoders import test_begun, test_block_stores, test_kept_texts, test_sharded
from tests.encoders.test_begun import corpus
from tests.encoders.test_open import test_opening_a_model_looks_for_it_once as opened_once
from tests.encoders.test_sharded import corpus as blocks_of_four
from tests.formats import test_begun_blocks
from tests.indexes import test_begun_pass
from tests.indexes.test_begun_pass import clock
from tests.shard_folders import cut_up
from tests.training import test_averaging, test_kinds
from tests.training.test_kinds import (
    test_infonce_is_their_multiple_negatives_ranking_loss,
    test_star_learns_through_their_modules,
)
from tests.verbs import test_kinds as whole_line

__all__ = [
    "blocks_of_four",
    "clock",
    "corpus",
    "test_infonce_is_their_multiple_negatives_ranking_loss",
    "test_star_learns_through_their_modules",
]
LAMBDAS = (0.05, 0.03)


@pytest.fixture
def opened(tmp_path: Path) -> Encoder:
    encoder = load_encoder(ModelSpec(str(tiny_sparse_encoder(tmp_path / "splade"))), "cpu")
    assert isinstance(encoder, Encoder)
    return encoder


# Stops, blocks and shards


def test_a_stopped_block_goes_on(tmp_path, monkeypatch, corpus):
    monkeypatch.setitem(test_begun.KINDS, "sparse", tiny_sparse_encoder)
    test_begun.test_a_stop_loses_no_more_than_half_a_minute(tmp_path, monkeypatch, corpus, "sparse", None, 0)


def test_queries_that_were_encoded_are_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(test_kept_texts.KINDS, "sparse", tiny_sparse_encoder)
    test_kept_texts.test_texts_that_were_encoded_are_not_encoded_again(tmp_path, monkeypatch, "sparse")


def test_parts_of_a_block_are_kept(tmp_path, monkeypatch):
    terms = np.array([1, 2, 0, 0, 3, 1], np.int32)
    rows = SparseRows(np.array([0, 2, 2, 3, 5, 6]), terms, np.arange(6, dtype=np.float32), 4)
    monkeypatch.setitem(test_begun_blocks.FORMS, "weights", rows)
    now = test_begun_blocks.Clock()
    monkeypatch.setattr(test_begun_blocks.begun_blocks, "clock", now)
    test_begun_blocks.test_what_was_made_half_a_minute_ago_is_there_after_a_stop(tmp_path, now, "weights")


@pytest.mark.parametrize(
    "ask",
    [
        test_begun_pass.test_a_search_that_was_stopped_goes_on_behind_the_blocks_that_were_kept,
        test_begun_pass.test_a_stop_after_every_block_changes_no_bit,
    ],
)
def test_a_killed_search_goes_on(tmp_path, clock, monkeypatch, ask):
    from dataclasses import replace

    documents = WeightForms.drawn_documents("weights", test_begun_pass.COUNT, 8, exact=False)
    queries = WeightForms.drawn_queries("weights", documents, exact=False)
    monkeypatch.setattr(exact, "_ROWS", 1024)
    monkeypatch.setattr(test_begun_pass, "opened", lambda at, way: (WeightForms.write_encoded(at, documents), queries))
    monkeypatch.setattr(test_begun_pass, "searcher", lambda at, way, bar: replace(open_store(at), progress=bar))
    ask(tmp_path, clock, "weights")


@pytest.mark.parametrize("shards", [{"shards": 1}, {"shards": 3}, {"rows": 9}, {"shards": 99}])
def test_shards_hold_what_one_folder_does(opened, blocks_of_four, tmp_path, monkeypatch, shards):
    monkeypatch.setattr(opened, "block", 4)
    whole = test_sharded.encode(opened, blocks_of_four, tmp_path / "whole")
    cut = test_sharded.encode(opened, blocks_of_four, tmp_path / "shards", test_sharded.Sharding(**shards))
    test_sharded.check_same(whole, cut, WeightForms.alike)
    assert (tmp_path / "whole/docid").read_bytes() == (tmp_path / "shards/docid").read_bytes()


def test_many_writers_make_what_one_does(opened, blocks_of_four, tmp_path, monkeypatch):
    check = test_sharded.check_same
    monkeypatch.setattr(test_block_stores, "check_same", lambda one, other: check(one, other, WeightForms.alike))
    test_block_stores.test_many_writers_in_any_order_make_what_one_does(
        {"sparse": opened}, blocks_of_four, tmp_path, monkeypatch, "sparse"
    )


@settings(max_examples=4, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=9).map(sorted))
def test_an_index_in_shards_is_the_same_index(tmp_path_factory, cuts):
    documents = WeightForms.drawn_documents("weights", 300, 8, exact=False)
    queries = WeightForms.drawn_queries("weights", documents, exact=False)
    folder = tmp_path_factory.mktemp("index")
    WeightForms.write_encoded(folder / "whole", documents)

    def writer(store: SparseStore, at: Path, start: int, stop: int) -> SparseWriter:
        return SparseWriter(at, store.width, stop - start)

    cut_up(SparseStore.open(folder / "whole"), folder / "shards", cuts, writer, "terms")
    open_store(folder / "shards").store.link(folder / "linked")  # type: ignore[attr-defined]
    candidates = np.random.default_rng(5).integers(0, 300, (len(queries), 30))
    found = []
    for name in ("whole", "shards", "linked"):
        searcher = open_store(folder / name)
        assert form_in(folder / name) == "weights"
        hits = searcher.search(queries, 20), rank_candidates(searcher, queries, candidates, 10)
        found.append([(each.rows.tobytes(), each.scores.tobytes()) for each in hits])
    assert found[0] == found[1] == found[2]


def test_rows_are_taken_and_joined():
    rows = rows_of([{1: 0.5, 4: 2.0}, {}, {0: 1.5}])
    taken = rows[np.array([2, 0, 0, 1])]
    assert taken.offsets.tolist() == [0, 1, 3, 5, 5] and taken.terms.tolist() == [0, 1, 4, 1, 4]
    assert taken.weights.tolist() == [1.5, 0.5, 2.0, 0.5, 2.0] and (taken.width, len(taken)) == (5, 4)
    again = SparseRows.join([rows[:1], rows[1:1], rows[1:]])
    assert again.offsets.tolist() == rows.offsets.tolist() and again.terms.tolist() == rows.terms.tolist()


# Models


def test_a_model_is_looked_for_once(tmp_path, monkeypatch):
    from tests.encoders import test_open

    monkeypatch.setitem(test_open.MAKERS, "sparse", (tiny_sparse_encoder, None))
    opened_once(tmp_path, monkeypatch, "sparse")


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        (
            "config_sentence_transformers.json",
            {"model_type": ...},
            "are those of a sparse encoder: set encoder: sparse",
        ),
        ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}, "a CrossEncoder, not a dense encoder"),
        ("sentence_bert_config.json", {"transformer_task": ...}, "without its head of masked words"),
        ("config.json", {"hidden_size": None}, "cannot be opened"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(tmp_path, file, change, told):
    from tests.fuzz.test_models import used, value

    folder = tiny_sparse_encoder(tmp_path / "model")
    value(**change)(folder / file)
    with pytest.raises(ModelError) as caught:
        used(folder)
    assert told in str(caught.value)


def test_a_static_folder_is_no_sparse_encoder(tmp_path):
    from tiny import tiny_static

    spec = ModelSpec(str(tiny_static(tmp_path / "static")), encoder=PluginSetting("sparse"))
    with pytest.raises(ModelError, match="a static model, not a sparse encoder"):
        load_encoder(spec, "cpu")


def test_weights_of_models_are_averaged(tmp_path):
    test_averaging.test_each_weight_is_the_mean_of_all(tiny_sparse_encoder, tmp_path)


# Training and recipes


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tiny_sparse_encoder(tmp_path_factory.mktemp("kinds") / "sparse")
    return test_kinds.learner_of(folder, {"query_length": 16, "document_length": 24})


def test_flops_is_in_their_splade_loss(encoder: Encoder, toy_folder: Path) -> None:
    penalty = Flops(*LAMBDAS, "constant", query_threshold=3, document_threshold=5)
    way = test_kinds.training(encoder, toy_folder, LossTerms({}, penalty), false_negative_mask=False)
    found = test_kinds.learnt(way, InfoNCE())
    thresholds = {"query_regularizer_threshold": 3, "document_regularizer_threshold": 5}
    theirs = test_kinds.their_loss(encoder, (LAMBDAS[1], LAMBDAS[0]), **thresholds)
    encoder.module.zero_grad()
    parts = theirs(test_kinds.columns(way))
    expected = sum(parts.values())
    expected.backward()
    assert parts["query_regularizer_loss"].item() > 0.001 < parts["document_regularizer_loss"].item()
    test_kinds.assert_same(found, (expected.item(), test_kinds.gradients(encoder)))


def test_gradient_caching_is_the_plain_batch(encoder: Encoder, toy_folder: Path) -> None:
    terms, loss = LossTerms({}, Flops(*LAMBDAS, "constant")), InfoNCE(temperature=0.1)
    ways = (test_kinds.training(encoder, toy_folder, terms, chunk=chunk) for chunk in (None, 2))
    plain, cached = (test_kinds.learnt(way, loss) for way in ways)
    test_kinds.assert_same(cached, plain)


@pytest.mark.slow
def test_the_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(whole_line.BY_FAMILY, "sparse", tiny_sparse_encoder)
    whole_line.test_the_whole_line(tmp_path, "sparse")
