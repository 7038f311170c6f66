"""What is drawn for a query: its positive, its negatives, a teacher's scores; two sets of queries together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from toy import toy_data, write_toy

from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import DataError, Negatives, RankedList, TrainingError
from hardneg.runtime import generator
from hardneg.training.batch_orders import Clustered, TopicBalanced
from hardneg.training.batches import BatchColumns, masked
from hardneg.training.examples import (
    Examples,
    QueryOrder,
    SampledBatch,
    Teacher,
    TrainingData,
    by_margin,
    margin_bins,
    write_teacher,
)
from hardneg.training.options import TrainOptions
from hardneg.training.sources import mixed
from tests.run_lists import ranked


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


def test_short_lists_repeat_and_empty_ones_are_counted(toy_folder, tmp_path):
    first = Negatives("q0", ["p0"], ["n1"], np.zeros(1, np.float32))
    rows = [first, Negatives("q1", ["p1"], [], np.zeros(0, np.float32))]
    write_negatives(tmp_path / "short.arrow", rows)
    data = toy_data(toy_folder)
    positives = {**data.positives, "q3": ["unknown"], "q0": ["p0", "gone"]}
    short = replace(data, negatives=read_negatives(tmp_path / "short.arrow"), positives=positives)
    examples = Examples(short, 3, seed=0)
    lacking = {"queries without positives": 1, "queries without negatives": 10}
    assert examples.skipped == {**lacking, "positives missing from the corpus": 2}
    draw = examples.draw(0, 2)
    assert draw.query_ids == ["q0", "q0"]
    assert draw.documents[0].tolist() == draw.documents[1].tolist()
    assert len(set(draw.documents[0, 1:].tolist())) == 1


def test_no_negatives_are_needed_where_none_are_drawn(toy_folder):
    data = replace(toy_data(toy_folder), negatives=None)
    assert Examples(data, 0, seed=0).draw(0, 5).documents.shape == (5, 1)
    with pytest.raises(TrainingError, match=r"no query can be used for training \(12 queries without negatives"):
        Examples(data, 1, seed=0)


def test_a_negative_that_the_corpus_lacks_is_named(toy_folder, tmp_path):
    rows = [Negatives("q0", ["p0"], ["nowhere"], np.zeros(1, np.float32))]
    write_negatives(tmp_path / "foreign.arrow", rows)
    data = replace(toy_data(toy_folder), negatives=read_negatives(tmp_path / "foreign.arrow"))
    with pytest.raises(DataError, match="negative 'nowhere' is not in the corpus"):
        Examples(data, 1, seed=0).draw(0, 1)


def test_the_same_query_twice_in_a_batch_does_not_meet_its_positive(toy_folder):
    corpus = toy_data(toy_folder).corpus
    rows = corpus.rows(["p0", "extra0"])
    draw = SampledBatch(["q0", "q0"], ["", ""], rows[:, None], np.tile(rows, 2), np.array([0, 0, 1, 1]))
    batch = masked(torch.eye(2) @ torch.eye(2).T, BatchColumns.of(draw, corpus.content_hash))
    assert batch.valid.int().tolist() == [[1, 0], [0, 1]]


NAN = float("nan")


def test_bins_by_hand() -> None:
    """A positive at 10: margins 1, 2, 6, 11 and 3.9; bins of width 1 from 1 on, the largest margin in the last."""
    scores = np.float32([9, 8, NAN, 4, -1, 6.1])
    assert margin_bins(scores).tolist() == [0, 1, -1, 5, 9, 2]
    assert margin_bins(scores + np.float32(100)).tolist() == [0, 1, -1, 5, 9, 2]
    assert margin_bins(np.float32([3, 3, NAN])).tolist() == [0, 0, -1]
    assert margin_bins(np.float32([NAN])).tolist() == [-1]
    assert margin_bins(np.float32([])).tolist() == []


def test_bins_are_as_likely_and_so_are_the_negatives_of_one() -> None:
    """Bins 0, 5 and 9 of 1, 4 and 2 negatives; chi-square of two, three and one degrees of freedom, each p > .001."""
    scores = np.float32([10, 5, 5, 4.9, 4.6, 0, 0.5])
    drawn = np.array([by_margin(scores, 1, generator(3, draw))[0] for draw in range(6000)])
    assert margin_bins(scores).tolist() == [0, 5, 5, 5, 5, 9, 9]

    def chi_square(counts: np.ndarray) -> float:
        return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())

    counts = np.bincount(drawn, minlength=7)
    assert chi_square(np.array([counts[0], counts[1:5].sum(), counts[5:].sum()])) < 13.82
    assert chi_square(counts[1:5]) < 16.27 and chi_square(counts[5:]) < 10.83


def test_without_replacement_where_there_are_enough() -> None:
    scores = np.float32([1, 2, NAN, 3, 4])
    assert sorted(by_margin(scores, 4, generator(0)).tolist()) == [0, 1, 3, 4]
    assert sorted(by_margin(scores, 8, generator(0)).tolist()) == [0, 0, 1, 1, 3, 3, 4, 4]
    assert sorted(by_margin(np.float32([NAN, NAN]), 2, generator(0)).tolist()) == [0, 1]
    for seed in range(20):
        assert {*by_margin(np.float32([2, 2, 2]), 5, generator(seed)).tolist()} == {0, 1, 2}


def scored_by(folder: Path, toy: Path) -> TrainingData:
    """Twelve queries with twelve negatives each; the teacher scores eleven of query i's at 10, and its fourth at 0."""
    names = [f"n{j}" for j in range(12)]
    rows = [Negatives(f"q{i}", [f"p{i}"], names, np.zeros(12, np.float32)) for i in range(12)]
    write_negatives(folder / "twelve.arrow", rows)
    data = toy_data(toy)
    scores = np.full(12, 10, np.float32)
    scores[3] = 0
    write_teacher(folder / "teacher", data.corpus, [RankedList(names, scores)] * 12)
    teacher = Teacher.open(folder / "teacher", len(data.corpus))
    return replace(data, negatives=read_negatives(folder / "twelve.arrow"), teacher=teacher)


def test_examples_draw_by_margin(toy_folder: Path, tmp_path: Path) -> None:
    """Half of the draws are of the bin with one negative, where an even draw has it in one of twelve."""
    data = scored_by(tmp_path, toy_folder)
    rare = data.corpus.rows(["n3"])[0]
    drawn = Examples(data, 1, 0, TrainOptions(negatives_drawn="margin_bins")).draw(0, 1200).documents[:, 1]
    assert abs((drawn == rare).sum() - 600) < 3.3 * np.sqrt(300)
    assert (Examples(data, 1, 0).draw(0, 1200).documents[:, 1] == rare).sum() < 150
    again = Examples(data, 1, 0, TrainOptions(negatives_drawn="margin_bins"))
    np.testing.assert_array_equal(again.draw(600, 600).documents[:, 1], drawn[600:])


@pytest.mark.parametrize("size", [4, 5])
def test_batches_keep_to_the_order_from_epoch_to_epoch(toy_folder: Path, size: int) -> None:
    """Twelve queries in groups of three: with replacement each time again, and negatives that differ."""
    groups = np.arange(12) % 2
    data = replace(toy_data(toy_folder), order=QueryOrder(TopicBalanced(2), groups, size))
    examples = Examples(data, 1, seed=0)
    assert len(examples) == -(-12 // size) * size
    for start in range(0, 40 * len(examples), size):
        batch = examples.draw(start, size)
        assert len({int(query_id[1:]) % 2 for query_id in batch.query_ids}) == 1
    epoch = examples.draw(0, len(examples))
    pairs = {(query_id, row) for query_id, row in zip(epoch.query_ids, epoch.documents[:, 1].tolist(), strict=True)}
    assert len(pairs) > len({*epoch.query_ids})  # a query that comes again has another negative
    other = replace(data, order=QueryOrder(Clustered(), groups, size))
    assert Examples(other, 1, seed=0).digest() != examples.digest() != Examples(toy_data(toy_folder), 1, 0).digest()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("toy"))


def opened(folder, corpus: Corpus, lists: list[dict[str, float]]) -> Teacher:
    write_teacher(folder, corpus, [ranked(scores) for scores in lists])
    return Teacher.open(folder, len(corpus))


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.integers(0, 12), st.floats(-9, 9, width=32), max_size=5), min_size=1, max_size=6))
def test_every_score_is_found_and_no_other(tmp_path_factory, toy, lists):
    """The corpus has no p12."""
    corpus = Corpus.open(toy / "corpus")
    named = [{f"p{number}": score for number, score in item.items()} for item in lists]
    teacher = opened(tmp_path_factory.mktemp("t"), corpus, named)
    rows = np.tile(corpus.rows([f"p{i}" for i in range(12)]), (len(lists), 1))
    found = teacher.scores(np.arange(len(lists)), rows)
    expected = [[item.get(number, np.nan) for number in range(12)] for item in lists]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def taught(toy, folder):
    """Positives are worth 2, a query's first three negatives 1, 0.5 and 0."""
    data = toy_data(toy)
    lists = [{f"p{i}": 2.0} | {f"n{i + j}": 1 - 0.5 * j for j in range(3)} for i in range(12)]
    return replace(data, teacher=opened(folder, data.corpus, lists), positives={f"q{i}": [f"p{i}"] for i in range(12)})


def test_draws_come_with_their_scores(toy, tmp_path):
    data = taught(toy, tmp_path)
    draw = Examples(data, 2, seed=5).draw(0, 12)
    assert draw.teacher is not None and draw.teacher.shape == (12, 3) and (draw.teacher[:, 0] == 2).all()
    for query_id, documents, scores in zip(draw.query_ids, draw.documents, draw.teacher, strict=True):
        number = int(query_id[1:])
        worth = {f"n{number + j}": 1 - 0.5 * j for j in range(3)}
        expected = [worth.get(doc_id, np.nan) for doc_id in data.corpus.ids(documents[1:])]
        np.testing.assert_array_equal(scores[1:], np.array(expected, np.float32))


def test_another_teacher_is_another_run(toy, tmp_path):
    data = taught(toy, tmp_path / "one")
    other = replace(data, teacher=opened(tmp_path / "two", data.corpus, [{"p0": 1.0}]))
    digests = {Examples(item, 2, seed=5).digest() for item in (data, other, replace(data, teacher=None))}
    assert len(digests) == 3


@pytest.fixture
def parts(tmp_path) -> tuple[TrainingData, TrainingData]:
    """12 queries with six negatives each, and three more with one or two."""
    data = toy_data(write_toy(tmp_path))
    rows = [Negatives(f"u{i}", [f"p{i}"], [f"n{j}" for j in range(1 + i % 2)], np.zeros(1 + i % 2)) for i in range(3)]
    write_negatives(tmp_path / "more.arrow", rows)
    more = read_negatives(tmp_path / "more.arrow")
    return data, TrainingData(data.corpus, more.query_ids, ["amber", "birch", "cedar"], more.positives, more)


def test_each_query_once_an_epoch_with_its_own_documents(parts):
    data, more = parts
    both = mixed(data, more)
    examples = Examples(both, 1, seed=3)
    assert len(examples) == 15 and not examples.skipped
    draw = examples.draw(0, 15)
    assert sorted(draw.query_ids) == sorted([*data.query_ids, *more.query_ids])
    assert draw.query_ids != [*data.query_ids, *more.query_ids]
    texts = dict(zip(both.query_ids, both.texts, strict=True))
    assert draw.texts == [texts[query_id] for query_id in draw.query_ids]
    for query_id, (positive, negative) in zip(draw.query_ids, draw.documents.tolist(), strict=True):
        number, own = int(query_id[1:]), data if query_id[0] == "q" else more
        assert data.corpus.ids(np.array([positive]))[0] in own.positives[query_id]
        allowed = range(number, number + 6) if own is data else range(1 + number % 2)
        assert data.corpus.ids(np.array([negative]))[0] in {f"n{j}" for j in allowed}


def test_positives_alone_where_no_negatives_are_drawn(parts):
    data, more = parts
    both = mixed(replace(data, negatives=None), more)
    assert both.negatives is None and len(Examples(both, 0, seed=3)) == 15


def test_other_examples_give_another_digest(parts):
    data, more = parts
    some = mixed(data, replace(more, query_ids=more.query_ids[:2], texts=more.texts[:2]))
    found = {Examples(item, 1, seed=3).digest() for item in (data, some, mixed(data, more))}
    assert len(found) == 3


def test_a_query_cannot_be_in_both(parts):
    data, more = parts
    with pytest.raises(TrainingError, match="1 query is in both training sets, such as 'q3'"):
        mixed(data, replace(more, query_ids=["u0", "q3", "u2"]))
