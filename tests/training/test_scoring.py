"""What the columns of a score matrix are, by hand."""

import numpy as np
import torch

from hardneg.training.batches import BatchColumns, apart, best_segments, masked

NAN = float("nan")


def columns(teacher: np.ndarray | None = None) -> BatchColumns:
    """Two queries, each with a positive and two negatives: documents 1, 2, 3 and 4, 1, 5; the second also knows 3."""
    contents = np.array([1, 2, 3, 4, 1, 5], np.uint64)
    known, owner = np.array([1, 4, 3], np.uint64), np.array([0, 1, 1])
    return BatchColumns(2, contents, known, owner, teacher)


def test_a_row_has_its_positive_its_own_negatives_and_no_known_positive_as_a_negative() -> None:
    scores = torch.arange(12.0).reshape(2, 6)
    batch = masked(scores, columns())
    assert batch.scores is scores and batch.teacher is None
    assert batch.positive.int().tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]]
    assert batch.own.int().tolist() == [[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]]
    assert batch.valid.int().tolist() == [[1, 1, 1, 1, 0, 1], [1, 1, 0, 1, 1, 1]]


def test_a_teachers_scores_stand_at_a_rows_own_documents() -> None:
    teacher = np.array([[6, 5, 4], [3, 2, NAN]], np.float32)
    found = masked(torch.zeros(2, 6), columns(teacher)).teacher
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), [[6, 5, 4, NAN, NAN, NAN], [NAN, NAN, NAN, 3, 2, NAN]])


def test_queries_are_related_where_one_of_them_knows_the_others_positive() -> None:
    """The second knows document 4 alone and the first 1 and 4: so it is the first that knows the other's positive."""
    known, owner = np.array([1, 4, 4], np.uint64), np.array([0, 0, 1])
    one_way = BatchColumns(2, np.array([1, 2, 4, 5], np.uint64), known, owner)
    assert one_way.blocked().astype(int).tolist() == [[1, 0, 1, 0], [0, 0, 1, 0]]
    assert one_way.related_queries().tolist() == [[True, True], [True, True]]
    assert columns().related_queries().tolist() == [[True, False], [False, True]]


def test_documents_are_related_to_those_of_their_query_and_to_what_it_knows() -> None:
    """The first query's also to column 4, a copy of its positive; the second's to column 2, which it knows."""
    assert columns().width == 3
    assert columns().related_documents().astype(int).tolist() == [
        [1, 1, 1, 0, 1, 0], [1, 1, 1, 0, 1, 0], [1, 1, 1, 0, 1, 0],
        [0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1],
    ]  # fmt: skip


def test_what_is_related_never_scores() -> None:
    found = apart(torch.ones(2, 2), np.array([[True, False], [False, True]]))
    assert found.tolist() == [[-torch.inf, 1.0], [1.0, -torch.inf]]


def test_the_best_of_segments_may_be_below_zero() -> None:
    """Two documents of two slots: segments at 1 and 2 against -1, and at 3 alone; an empty slot would give 0."""
    slots = torch.tensor([[[1.0, 1], [2, 1]], [[3, 1], [0, 0]]])
    assert best_segments(torch.tensor([[-1.0], [1.0]]), slots).tolist() == [[-1, -3], [2, 3]]
