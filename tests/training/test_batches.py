"""Batches: parts of texts, and scores by hand, of documents whole and in segments."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import options, toy_data

from hardneg.encoders import protocol, spec
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.formats import segments
from hardneg.runtime import distributed
from hardneg.training import batches, examples, validation
from hardneg.training.batches import BatchColumns, apart, best_segments, in_parts, in_slots, masked, own_share
from hardneg.training.methods.dual_encoder import DualEncoderTraining


def test_the_order_is_that_of_the_features_and_no_pass_is_padded_more_than_its_longest_text() -> None:
    seen = []

    def embed(features: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(features["input_ids"].tolist())

        summed = (features["input_ids"] * features["attention_mask"]).sum(1, keepdim=True)
        return summed + features["prompt_length"][:, None]

    ids = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 7], [8, 9, 1, 0], [2, 0, 0, 0]])
    features = {"input_ids": ids, "attention_mask": (ids > 0).long(), "prompt_length": torch.full((5,), 100)}
    assert in_parts(features, 2).through(embed).flatten().tolist() == [103, 103, 122, 118, 102]
    assert seen == [[[4, 5, 6, 7], [8, 9, 1, 0]], [[1, 2], [3, 0]], [[2]]]


def test_padding_on_the_left_is_cut_too() -> None:
    ids = torch.tensor([[0, 0, 1], [0, 2, 3], [4, 5, 6]])
    widths = []

    def embed(features: dict[str, torch.Tensor]) -> torch.Tensor:
        widths.append(features["input_ids"].shape[1])
        return features["input_ids"][:, -1:]

    parts = in_parts({"input_ids": ids, "attention_mask": (ids > 0).long()}, 1)
    assert parts.through(embed).flatten().tolist() == [1, 3, 6]
    assert widths == [3, 2, 1]


def test_gradients_come_back_in_order() -> None:
    weights = torch.arange(1.0, 4.0).requires_grad_()
    ids = torch.tensor([[1, 0], [2, 1], [0, 0]])
    features = {"input_ids": ids, "attention_mask": torch.tensor([[1, 0], [1, 1], [1, 0]])}
    vectors = in_parts(features, 1).through(lambda part: weights[part["input_ids"][:, :1]])
    (vectors.flatten() * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [100.0, 1.0, 10.0]


@pytest.mark.parametrize(
    ("total", "shares"), [(2, [(0, 1), (0, 1), (1, 2), (1, 2)]), (9, [(0, 2), (2, 4), (4, 6), (6, 9)])]
)
def test_each_of_four_processes_has_one_thing_at_least(
    total: int, shares: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, share in enumerate(shares):
        monkeypatch.setattr(batches, "world", lambda rank=rank: distributed.World(rank, 4))
        assert own_share(total) == slice(*share)


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


VECTORS = [[1.0, 0.0], [0.0, 2.0], [-1.0, -1.0], [3.0, 0.0], [0.0, 1.0]]


def test_slots_hold_each_documents_segments() -> None:
    slots = in_slots(torch.tensor(VECTORS), torch.tensor([2, 1, 2]), 3)
    assert slots.tolist() == [
        [[1, 0, 1], [0, 2, 1], [0, 0, 0]],
        [[-1, -1, 1], [0, 0, 0], [0, 0, 0]],
        [[3, 0, 1], [0, 1, 1], [0, 0, 0]],
    ]
    assert distributed.gather(slots, 3).equal(slots)


def test_the_gradient_goes_through_the_best_segment_alone() -> None:
    """Query (1, 1) is best met by segments 1, 2 and 3; a gradient of a document's score is the query there, else 0."""
    vectors = torch.tensor(VECTORS, requires_grad=True)
    query = torch.tensor([[1.0, 1.0]], requires_grad=True)
    scores = best_segments(query, in_slots(vectors, torch.tensor([2, 1, 2]), 3))
    (scores * torch.tensor([[1.0, 10.0, 100.0]])).sum().backward()
    assert vectors.grad is not None and query.grad is not None
    assert vectors.grad.tolist() == [[0, 0], [1, 1], [10, 10], [100, 100], [0, 0]]
    assert query.grad.tolist() == [[0 - 10 + 300, 2 - 10 + 0]]


def test_one_of_two_equal_segments_gets_the_whole_gradient() -> None:
    vectors = torch.ones(2, 1, requires_grad=True)
    best_segments(torch.ones(1, 1), in_slots(vectors, torch.tensor([2]), 2)).sum().backward()
    assert vectors.grad is not None and sorted(vectors.grad.flatten().tolist()) == [0, 1]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(spec.ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")


def test_a_batch_scores_by_the_best_segment(encoder: Encoder, toy_folder: Path) -> None:
    """Six tokens a segment are four of text; documents have several."""
    cut = segments.Segments(length=6, stride=3, count=3)
    data = replace(toy_data(toy_folder), segments=cut)
    way = DualEncoderTraining(encoder, data, options(batch_size=3))
    found = way.scores(way.forward_module, next(way.batches(range(0, 3, 3), 3)), half=False)
    draw = examples.Examples(data, 2, options().seed).draw(0, 3)
    fp32 = protocol.EncodeOptions(precision="fp32")
    vectors, counts = encoder.encode_segments(data.corpus.contents(draw.documents.reshape(-1)), cut, fp32)
    assert counts.max() == 3
    products = encoder.encode(draw.texts, "query", fp32) @ vectors.T
    expected = np.maximum.reduceat(products, np.cumsum(counts) - counts, axis=1)
    np.testing.assert_allclose(found.scores.detach().numpy(), expected, atol=1e-5)
    plain = DualEncoderTraining(encoder, toy_data(toy_folder), options(batch_size=3))
    assert way.digest() != plain.digest()


def test_dev_metrics_count_the_best_segment() -> None:
    """The relevant document is second by its first segment, first by its second."""
    pool = validation.Pool(np.arange(2), ["a"], np.array([1]), np.array([0]), np.array([1]))
    vectors = np.array([[2], [1], [3]], np.float32)
    query = np.ones((1, 1), np.float32)
    assert validation.pool_metrics(query, vectors, pool, np.array([0, 1]))["mrr@10"] == 1
    assert validation.pool_metrics(query, vectors[:2], pool)["mrr@10"] == 0.5
