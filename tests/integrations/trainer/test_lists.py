"""The lists of a refresh, by hand."""

from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.integrations.rows import first_ones, kept_share, table_of
from hardneg.records import Document, Negatives, TrainingError
from hardneg.runtime import Silent


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    write_corpus((Document(f"d{i}", f"text {i}") for i in range(6)), tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def mined(folder: Path, **lists: list[str]) -> NegativesFile:
    rows = (Negatives(name, ["d0"], ids, np.zeros(len(ids), np.float32)) for name, ids in lists.items())
    write_negatives(folder / "negatives.arrow", rows)
    return read_negatives(folder / "negatives.arrow")


def test_a_table_is_in_the_order_of_the_queries(tmp_path: Path, corpus: Corpus) -> None:
    file = mined(tmp_path, b=["d3", "d4", "d5"], a=["d1", "d2"])
    assert table_of(file, ["a", "b"], corpus, 2).tolist() == [[1, 2, -1], [3, 4, 5]]


def test_short_lists_are_repeated(tmp_path: Path, corpus: Corpus) -> None:
    table = table_of(mined(tmp_path, a=["d1", "d2"], b=["d3"]), ["a", "b"], corpus, 3)
    assert table.tolist() == [[1, 2, 1], [3, 3, 3]]


def test_a_query_without_negatives_is_told(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(TrainingError, match=r"^2 queries without a negative, such as b: take a miner"):
        table_of(mined(tmp_path, a=["d1"], b=[]), ["a", "b", "c"], corpus, 1)


def test_kept_is_the_mean_share_of_the_first_ones() -> None:
    now, before = np.array([[1, 2, 9], [3, 4, 9]]), np.array([[2, 5, 9], [4, 3, 9]])
    assert kept_share(now, before, 2) == 0.75


TABLE = np.array([[1, 2, 3], [1, 4, 5], [2, -1, -1]])
EACH = np.array([-1, -1, -1], np.int32)
CONTENTS = np.abs(TABLE).astype(np.uint64)


def test_the_first_of_a_list() -> None:
    assert first_ones(TABLE, EACH, np.array([2, 2, 2]), CONTENTS, None) == [[1, 2], [1, 4], [2]]
    assert first_ones(TABLE, np.array([1, 2, 1], np.int32), np.array([1, 1, 1]), CONTENTS, None) == [[2], [5], [2]]


def test_what_the_batch_has_is_passed_over_while_there_are_others() -> None:
    taken = np.array([2, 7], np.uint64)
    assert first_ones(TABLE, EACH, np.array([2, 2, 1]), CONTENTS, taken) == [[1, 3], [4, 5], [2]]


def test_a_text_counts_not_an_id() -> None:
    same = np.array([[7, 7, 8], [8, 9, 9], [9, 0, 0]], np.uint64)
    assert first_ones(TABLE, EACH, np.array([2, 1, 1]), same, np.array([], np.uint64)) == [[1, 3], [4], [2]]
