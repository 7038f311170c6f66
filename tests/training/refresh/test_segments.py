"""Refreshed negatives of documents in segments."""

from dataclasses import replace

import numpy as np
from toy import toy_data

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.negatives import read_negatives
from hardneg.formats.segments import Segments
from hardneg.training.options import RefreshOptions
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.mining import Mining, mine_refresh


def test_negatives_are_documents_by_their_best_segment(tiny_model, toy_folder, tmp_path):
    """Six tokens a segment are four of text, of which most documents have more."""
    encoder, cut = load_learner(ModelSpec(str(tiny_model), query_length=16), "cpu"), Segments(length=6, count=3)
    data = replace(toy_data(toy_folder), negatives=None, segments=cut)
    options = RefreshOptions("synchronous", every=5, depth=10, negatives=3, choice="top", precision="fp32")
    place = RefreshFolder(tmp_path)
    mine_refresh([encoder], Mining(data, options, 42), place, 0, 0)
    mined = read_negatives(place.negatives(0))
    fp32 = EncodeOptions(precision="fp32")
    vectors, counts = encoder.encode_segments(data.corpus.contents(np.arange(len(data.corpus))), cut, fp32)
    assert len(vectors) > 1.5 * len(counts)
    products = encoder.encode(data.texts, "query", fp32) @ vectors.T
    best = np.maximum.reduceat(products, np.cumsum(counts) - counts, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    assert len(mined.query_ids) == 12
    for row, query_id in enumerate(mined.query_ids):
        ranked = data.corpus.ids(order[data.query_ids.index(query_id)])
        none = {*data.positives[query_id], *(["c0"] if query_id == "q0" else [])}
        assert mined.pick(row, np.arange(3)) == [doc_id for doc_id in ranked if doc_id not in none][:3]


def test_segments_are_counted_once_for_all_refreshes(tiny_model, toy_folder, tmp_path, monkeypatch):
    encoder, cut = load_learner(ModelSpec(str(tiny_model), query_length=16), "cpu"), Segments(length=6, count=3)
    data = replace(toy_data(toy_folder), negatives=None, segments=cut)
    mining = Mining(data, RefreshOptions("synchronous", every=5, depth=10, negatives=3, choice="top"), 42)
    place = RefreshFolder(tmp_path)
    mine_refresh([encoder], mining, place, 0, 0)
    assert (tmp_path / "segments-0-of-1.npy").exists()

    def again(*_: object) -> None:
        raise AssertionError("counted again")

    monkeypatch.setattr("hardneg.encoders.tokens.segmenting.replacing", again)
    mine_refresh([encoder], mining, RefreshFolder(tmp_path), 1, 5)
    one, two = (read_negatives(place.negatives(number)) for number in (0, 1))
    assert [each.negatives for each in one] == [each.negatives for each in two]
