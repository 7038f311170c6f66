"""Draws and the masks made from them, on the toy task."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import toy_data

from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records.errors import DataError, TrainingError
from hardneg.records.types import Negatives
from hardneg.training.batches import BatchColumns, masked
from hardneg.training.examples import Examples, SampledBatch
from hardneg.training.options import TrainOptions


def test_an_epoch_has_every_query_once_and_the_next_another_order(toy_folder):
    examples = Examples(toy_data(toy_folder), 2, seed=0)
    first, second = examples.draw(0, 12).query_ids, examples.draw(12, 12).query_ids
    assert sorted(first) == sorted(second) == sorted(f"q{i}" for i in range(12))
    assert first != second


def test_a_draw_does_not_depend_on_how_it_is_cut(toy_folder):
    whole = Examples(toy_data(toy_folder), 2, seed=0).draw(0, 30)
    examples = Examples(toy_data(toy_folder), 2, seed=0)
    parts = [examples.draw(start, 5) for start in (25, 0, 5, 15, 10, 20)]
    parts = [parts[1], parts[2], parts[4], parts[3], parts[5], parts[0]]
    assert [name for part in parts for name in part.query_ids] == whole.query_ids
    np.testing.assert_array_equal(np.concatenate([part.documents for part in parts]), whole.documents)


def test_positives_and_negatives_are_drawn_from_their_lists(toy_folder):
    data = toy_data(toy_folder)
    draw = Examples(data, 3, seed=0).draw(0, 1200)
    assert draw.documents.shape == (1200, 4)
    names = np.array(data.corpus.doc_ids[:])[draw.documents]
    seen: dict[str, set[str]] = {}
    for query_id, row in zip(draw.query_ids, names, strict=True):
        number = int(query_id[1:])
        assert row[0] in data.positives[query_id]
        assert set(row[1:]) <= {f"n{j}" for j in range(number, number + 6)}
        assert len(set(row[1:])) == 3
        seen.setdefault(query_id, set()).update(row.tolist())
    assert {len(found) for found in seen.values()} == {7, 8}
    counts = np.unique(draw.documents[:, 1:], return_counts=True)[1]
    assert counts.sum() == 3600


def test_the_first_positive_alone_and_the_same_negatives(toy_folder):
    data = replace(toy_data(toy_folder), positives={"q0": ["extra0", "p0"], "q1": ["p1"], "q2": ["p2", "p3"]})
    draw = Examples(data, 2, seed=0, drawing=TrainOptions(positive="first")).draw(0, 60)
    firsts = dict(zip(draw.query_ids, data.corpus.ids(draw.documents[:, 0]), strict=True))
    assert firsts == {"q0": "extra0", "q1": "p1", "q2": "p2"}
    assert set(data.corpus.ids(draw.known)) == {"extra0", "p0", "p1", "p2", "p3"}
    drawn = Examples(data, 2, seed=0).draw(0, 60)
    ids = data.corpus.ids(drawn.documents[:, 0])
    assert {ids[i] for i, query_id in enumerate(drawn.query_ids) if query_id == "q0"} == {"extra0", "p0"}


def test_consecutive_examples_have_each_negative_of_a_query_in_turn(toy_folder):
    data = toy_data(toy_folder)
    examples = Examples(data, 2, seed=0, drawing=TrainOptions(iterate_negatives=True))
    assert len(examples) == 36  # six negatives each, two at a time
    draw = examples.draw(0, 72)
    assert draw.query_ids[:36:3] == draw.query_ids[1:36:3] == draw.query_ids[2:36:3]
    assert draw.query_ids[:36:3] == Examples(data, 2, seed=0).draw(0, 12).query_ids
    assert draw.query_ids[36::3] != draw.query_ids[:36:3]
    number = int(draw.query_ids[0][1:])
    assert [data.corpus.ids(row) for row in draw.documents[:3, 1:]] == [
        [f"n{number + 2 * i}", f"n{number + 2 * i + 1}"] for i in range(3)
    ]
    parts = [examples.draw(start, 9) for start in range(0, 72, 9)]
    np.testing.assert_array_equal(np.concatenate([part.documents for part in parts]), draw.documents)


def test_a_short_list_has_one_turn_and_begins_again(toy_folder, tmp_path):
    lists = [Negatives("q0", ["p0"], ["n1", "n2", "n3"], np.zeros(3)), Negatives("q1", ["p1"], ["n5"], np.zeros(1))]
    write_negatives(tmp_path / "short.arrow", lists)
    data = replace(toy_data(toy_folder), negatives=read_negatives(tmp_path / "short.arrow"))
    examples = Examples(data, 2, seed=0, drawing=TrainOptions(iterate_negatives=True))
    draw = examples.draw(0, len(examples))
    found = {q: data.corpus.ids(row) for q, row in zip(draw.query_ids, draw.documents[:, 1:], strict=True)}
    assert found == {"q0": ["n1", "n2"], "q1": ["n5", "n5"]}


def test_an_option_that_came_later_counts_where_it_is_not_the_default():
    assert "positive" not in TrainOptions().identity()
    assert TrainOptions(positive="first").identity() == {**TrainOptions().identity(), "positive": "first"}


def test_short_lists_repeat_and_empty_ones_are_counted(toy_folder, tmp_path):
    first = Negatives("q0", ["p0"], ["n1"], np.zeros(1, np.float32))
    rows = [first, Negatives("q1", ["p1"], [], np.zeros(0, np.float32))]
    write_negatives(tmp_path / "short.arrow", rows)
    data = toy_data(toy_folder)
    positives = {**data.positives, "q3": ["unknown"], "q0": ["p0", "gone"]}
    short = replace(data, negatives=read_negatives(tmp_path / "short.arrow"), positives=positives)
    examples = Examples(short, 3, seed=0)
    lacking = {"queries without positives": 1, "queries without negatives": 10}
    assert examples.skipped == {**lacking, "positives that the corpus lacks": 2}
    draw = examples.draw(0, 2)
    assert draw.query_ids == ["q0", "q0"]
    assert draw.documents[0].tolist() == draw.documents[1].tolist()
    assert len(set(draw.documents[0, 1:].tolist())) == 1


def test_no_negatives_are_needed_where_none_are_drawn(toy_folder):
    data = replace(toy_data(toy_folder), negatives=None)
    assert Examples(data, 0, seed=0).draw(0, 5).documents.shape == (5, 1)
    with pytest.raises(TrainingError, match="no query can be trained on: 12 queries without negatives"):
        Examples(data, 1, seed=0)


def test_a_negative_that_the_corpus_lacks_is_named(toy_folder, tmp_path):
    rows = [Negatives("q0", ["p0"], ["nowhere"], np.zeros(1, np.float32))]
    write_negatives(tmp_path / "foreign.arrow", rows)
    data = replace(toy_data(toy_folder), negatives=read_negatives(tmp_path / "foreign.arrow"))
    with pytest.raises(DataError, match="negative 'nowhere' is not in the corpus"):
        Examples(data, 1, seed=0).draw(0, 1)


def test_masks_know_other_positives_and_copies(toy_folder):
    corpus = toy_data(toy_folder).corpus

    def rows(*names: str) -> np.ndarray:
        return corpus.rows(list(names))

    pairs = np.stack([rows("p0", "n1"), rows("p1", "c0"), rows("extra2", "p2")])
    known = rows("p0", "extra0", "p1", "p2", "extra2")
    draw = SampledBatch(["q0", "q1", "q2"], ["", "", ""], pairs, known, np.array([0, 0, 1, 2, 2]))
    columns = BatchColumns.of(draw, corpus.content_hash)
    queries = torch.eye(3, 4)
    documents = torch.arange(24.0).reshape(6, 4)
    batch = masked(queries @ documents.T, columns)
    assert batch.scores.tolist() == documents.T[:3].tolist()
    assert batch.positive.int().tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]]
    assert batch.own.int().tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]
    assert batch.valid.int().tolist() == [[1, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]]


def test_the_same_query_twice_in_a_batch_does_not_meet_its_positive(toy_folder):
    corpus = toy_data(toy_folder).corpus
    rows = corpus.rows(["p0", "extra0"])
    draw = SampledBatch(["q0", "q0"], ["", ""], rows[:, None], np.tile(rows, 2), np.array([0, 0, 1, 1]))
    batch = masked(torch.eye(2) @ torch.eye(2).T, BatchColumns.of(draw, corpus.content_hash))
    assert batch.valid.int().tolist() == [[1, 0], [0, 1]]
