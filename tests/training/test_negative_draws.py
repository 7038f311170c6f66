"""Which negatives an example has: margin bins by hand, and as examples draw them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy import toy_data

from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records.types import Negatives, RankedList
from hardneg.runtime.seeding import generator
from hardneg.training.examples import Examples, QueryOrder, Teacher, TrainingData, by_margin, margin_bins, write_teacher
from hardneg.training.options import TrainOptions

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


def taught(folder: Path, toy: Path) -> TrainingData:
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
    data = taught(tmp_path, toy_folder)
    rare = data.corpus.rows(["n3"])[0]
    drawn = Examples(data, 1, 0, TrainOptions(negatives_drawn="margin_bins")).draw(0, 1200).documents[:, 1]
    assert abs((drawn == rare).sum() - 600) < 3.3 * np.sqrt(300)
    assert (Examples(data, 1, 0).draw(0, 1200).documents[:, 1] == rare).sum() < 150
    again = Examples(data, 1, 0, TrainOptions(negatives_drawn="margin_bins"))
    np.testing.assert_array_equal(again.draw(600, 600).documents[:, 1], drawn[600:])


def test_nothing_of_it_is_in_the_identity_unless_it_is_said() -> None:
    plain = TrainOptions().identity()
    assert "negatives_drawn" not in plain
    assert TrainOptions(negatives_drawn="margin_bins").identity() == {**plain, "negatives_drawn": "margin_bins"}


@pytest.mark.parametrize("size", [4, 5])
def test_batches_keep_to_the_order_from_epoch_to_epoch(toy_folder: Path, size: int) -> None:
    """Twelve queries in groups of three: with replacement each time again, and negatives that differ."""
    from hardneg.training.batch_orders import Clustered, TopicBalanced

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
