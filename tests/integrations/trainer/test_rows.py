"""The rows and columns of each form, the lists of a refresh, and which refresh a batch is of: by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainer_toy import write_toy_collection

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.integrations.rows import CarryingBatchSampler, RefreshSchedule, first_ones, plan_rows, table_of
from hardneg.records import errors, types
from hardneg.runtime import Silent


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> StoredCollection:
    """q0 has d0 and d1 as positives, q1 has d2, q2 none."""
    folder = tmp_path_factory.mktemp("collection")
    qrels = [("q0", "d0"), ("q0", "d1"), ("q1", "d2")]
    return write_toy_collection(folder, documents=4, queries=3, qrels=qrels)


def rows(collection: StoredCollection, form: str) -> list[tuple[int, int, int]]:
    plan = plan_rows(collection, "train", form, 2)
    return list(zip(plan.query.tolist(), plan.positive.tolist(), plan.number.tolist(), strict=True))


def test_one_row_a_positive(collection: StoredCollection) -> None:
    assert rows(collection, "n-tuple") == rows(collection, "labeled-list") == [(0, 0, -1), (0, 1, -1), (1, 2, -1)]


def test_one_row_a_document(collection: StoredCollection) -> None:
    first, second = [(0, 0, -1), (0, 1, -1), (0, -1, 0), (0, -1, 1)], [(1, 2, -1), (1, -1, 0), (1, -1, 1)]
    assert rows(collection, "labeled-pair") == first + second


KNOWN = {0: "zero", 1: "one", 2: "two"}


def columns(collection: StoredCollection, form: str, row: int, *negatives: str) -> dict[str, list[object]]:
    return plan_rows(collection, "train", form, 2).columns_of(np.array([row]), [negatives], KNOWN)


def test_columns(collection: StoredCollection) -> None:
    anchor = "query 0"
    negatives = {"negative_1": ["x"], "negative_2": ["y"]}
    assert columns(collection, "n-tuple", 1, "x", "y") == {"anchor": [anchor], "positive": ["one"], **negatives}
    assert columns(collection, "labeled-pair", 1) == {"anchor": [anchor], "passage": ["one"], "label": [1.0]}
    assert columns(collection, "labeled-pair", 2, "x") == {"anchor": [anchor], "passage": ["x"], "label": [0.0]}
    listed = {"positive": [["zero", "x", "y"]], "labels": [[1.0, 0.0, 0.0]]}
    assert columns(collection, "labeled-list", 0, "x", "y") == {"anchor": [anchor], **listed}


def test_one_negative_has_no_number(collection: StoredCollection) -> None:
    assert plan_rows(collection, "train", "n-tuple", 1).columns == ("anchor", "positive", "negative")


def test_what_cannot_be(collection: StoredCollection) -> None:
    with pytest.raises(errors.UsageError, match="unknown form 'pairs'; available: n-tuple, labeled-pair, labeled-list"):
        plan_rows(collection, "train", "pairs", 1)
    with pytest.raises(errors.DataError, match="no split 'dev'"):
        plan_rows(collection, "dev", "n-tuple", 1)


@pytest.mark.parametrize(
    ("schedule", "numbers"),
    [
        (RefreshSchedule(every=3), [0, 0, 0, 0, 1, 1, 1, 2, 2]),  # used from the second step behind it
        (RefreshSchedule(every=3, epoch=1, first_step=6), [2, 2, 2, 2, 3]),  # one was made right before the epoch
        (RefreshSchedule(every=1, batches_a_step=4), [0] * 8 + [1] * 4 + [2] * 2),  # of all processes together
        (RefreshSchedule(every=None, epoch=2, first_step=20), [2] * 10),  # one for an epoch
    ],
)
def test_the_refresh_that_a_batch_is_of(schedule, numbers):
    assert [schedule.number(batch) for batch in range(len(numbers))] == numbers


class Held:
    """A batch sampler of four rows."""

    batch_size, drop_last = 2, True
    sampler: Any = None
    epoch = 0

    def __iter__(self) -> Any:
        return iter([[0, 3], [2, 1]])

    def __len__(self) -> int:
        return 2

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_indices_carry_the_number_of_their_refresh() -> None:
    sampler = CarryingBatchSampler(Held(), RefreshSchedule(every=2, epoch=1, first_step=6), rows=4)
    assert list(sampler) == [[12, 15], [14, 13]]
    assert len(sampler) == 2


def test_what_is_asked_of_it_is_asked_of_the_one_it_holds() -> None:
    held = Held()
    sampler = CarryingBatchSampler(held, RefreshSchedule(every=2, epoch=5), rows=4)
    sampler.sampler = drawn = Held()
    assert held.sampler is drawn
    assert (sampler.batch_size, sampler.drop_last) == (2, True)
    sampler.set_epoch(3)
    assert held.epoch == 3
    list(sampler)
    assert (held.epoch, drawn.epoch) == (5, 5)  # as a resumed run must have it


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    write_corpus((types.Document(f"d{i}", f"text {i}") for i in range(6)), tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def mined(folder: Path, **lists: list[str]) -> NegativesFile:
    rows = (types.Negatives(name, ["d0"], ids, np.zeros(len(ids), np.float32)) for name, ids in lists.items())
    write_negatives(folder / "negatives.arrow", rows)
    return read_negatives(folder / "negatives.arrow")


def test_a_table_is_in_the_order_of_the_queries(tmp_path: Path, corpus: Corpus) -> None:
    file = mined(tmp_path, b=["d3", "d4", "d5"], a=["d1", "d2"])
    assert table_of(file, ["a", "b"], corpus, 2).tolist() == [[1, 2, -1], [3, 4, 5]]


def test_short_lists_are_repeated(tmp_path: Path, corpus: Corpus) -> None:
    table = table_of(mined(tmp_path, a=["d1", "d2"], b=["d3"]), ["a", "b"], corpus, 3)
    assert table.tolist() == [[1, 2, 1], [3, 3, 3]]


def test_a_query_without_negatives_is_told(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(errors.TrainingError, match=r"^2 queries without negatives, such as b; use a miner"):
        table_of(mined(tmp_path, a=["d1"], b=[]), ["a", "b", "c"], corpus, 1)


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
