"""Which negatives an example has: margin bins and rank windows by hand, and as examples draw them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy import toy_data

from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records.types import Negatives, RankedList
from hardneg.runtime.seeding import generator
from hardneg.training.examples import Examples, QueryOrder, TrainingData
from hardneg.training.negative_draws import Drawing, by_margin, margin_bins
from hardneg.training.options import TrainOptions
from hardneg.training.teacher import Teacher, write_teacher

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


def test_windows_by_epoch() -> None:
    drawing = Drawing(rank_windows=((100, 200), (50, 100), (0, 20)))
    assert [drawing.window(epoch, 200, 1) for epoch in range(5)] == [(100, 200), (50, 100), (0, 20), (0, 20), (0, 20)]
    assert drawing.window(0, 150, 1) == (100, 150)
    assert drawing.window(0, 60, 4) == (56, 60)
    assert drawing.window(0, 100, 4) == (96, 100) and drawing.window(0, 101, 4) == (100, 101)
    assert drawing.window(0, 3, 4) == (0, 3)
    assert Drawing().window(7, 9, 4) == (0, 9)


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
    drawn = Examples(data, 1, 0, Drawing(negatives="margin_bins")).draw(0, 1200).documents[:, 1]
    assert abs((drawn == rare).sum() - 600) < 3.3 * np.sqrt(300)
    assert (Examples(data, 1, 0).draw(0, 1200).documents[:, 1] == rare).sum() < 150
    again = Examples(data, 1, 0, Drawing(negatives="margin_bins"))
    np.testing.assert_array_equal(again.draw(600, 600).documents[:, 1], drawn[600:])


def test_examples_draw_from_the_window_of_their_epoch(toy_folder: Path, tmp_path: Path) -> None:
    data = taught(tmp_path, toy_folder)
    for negatives in ("uniformly", "margin_bins"):
        drawing = Drawing(negatives=negatives, rank_windows=((8, 12), (2, 5)))  # type: ignore[arg-type]
        drawn = Examples(data, 2, 0, drawing).draw(0, 48)
        names = np.array(data.corpus.doc_ids[:])[drawn.documents[:, 1:]]
        assert set(names[:12].reshape(-1)) == {"n8", "n9", "n10", "n11"}
        assert set(names[12:].reshape(-1)) == {"n2", "n3", "n4"}


def test_nothing_of_it_is_in_the_identity_unless_it_is_said() -> None:
    plain = TrainOptions().identity()
    assert not {"negatives_drawn", "rank_windows"} & {*plain}
    said = TrainOptions(negatives_drawn="margin_bins", rank_windows=((0, 5),)).identity()
    assert said == {**plain, "negatives_drawn": "margin_bins", "rank_windows": [[0, 5]]}


@pytest.mark.parametrize("size", [4, 5])
def test_batches_keep_to_the_order_from_epoch_to_epoch(toy_folder: Path, size: int) -> None:
    """Twelve queries in two groups, each batch of one, and negatives that differ."""
    from hardneg.batches.batch_order import OneSource, Shuffled

    groups = np.arange(12) % 2
    data = replace(toy_data(toy_folder), order=QueryOrder(OneSource(), groups, size))
    examples = Examples(data, 1, seed=0)
    assert len(examples) == 4 * size
    for start in range(0, 40 * len(examples), size):
        batch = examples.draw(start, size)
        assert len({int(query_id[1:]) % 2 for query_id in batch.query_ids}) == 1
    epoch = examples.draw(0, len(examples))
    pairs = {(query_id, row) for query_id, row in zip(epoch.query_ids, epoch.documents[:, 1].tolist(), strict=True)}
    assert len(pairs) > len({*epoch.query_ids})  # a query that comes again has another negative
    other = replace(data, order=QueryOrder(Shuffled(), groups, size))
    assert Examples(other, 1, seed=0).digest() != examples.digest() != Examples(toy_data(toy_folder), 1, 0).digest()
