"""The rows and columns of each form, by hand."""

import numpy as np
import pytest
from trainer_toy import write_toy_collection

from hardneg.formats.collection import StoredCollection
from hardneg.integrations.rows import plan_rows
from hardneg.records import DataError, UsageError


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


def test_one_row_a_positive_and_negative(collection: StoredCollection) -> None:
    assert rows(collection, "triplet") == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 2, 0), (1, 2, 1)]


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
    assert columns(collection, "triplet", 0, "x") == {"anchor": [anchor], "positive": ["zero"], "negative": ["x"]}
    assert columns(collection, "labeled-pair", 1) == {"anchor": [anchor], "passage": ["one"], "label": [1.0]}
    assert columns(collection, "labeled-pair", 2, "x") == {"anchor": [anchor], "passage": ["x"], "label": [0.0]}
    listed = {"positive": [["zero", "x", "y"]], "labels": [[1.0, 0.0, 0.0]]}
    assert columns(collection, "labeled-list", 0, "x", "y") == {"anchor": [anchor], **listed}


def test_one_negative_has_no_number(collection: StoredCollection) -> None:
    assert plan_rows(collection, "train", "n-tuple", 1).columns == ("anchor", "positive", "negative")


def test_what_cannot_be(collection: StoredCollection) -> None:
    with pytest.raises(UsageError, match="form 'pairs': one of n-tuple, triplet, labeled-pair, labeled-list"):
        plan_rows(collection, "train", "pairs", 1)
    with pytest.raises(DataError, match="no split 'dev'"):
        plan_rows(collection, "dev", "triplet", 1)
