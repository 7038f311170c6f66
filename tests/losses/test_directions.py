"""InfoNCE in more directions and with hardness, and margins of two teachers: hand-computed numbers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hardneg.losses.infonce import InfoNCE
from hardneg.losses.listwise import KL
from hardneg.losses.pairwise import MarginMSE
from hardneg.records import errors, types
from hardneg.registry import needs_of
from hardneg.store import plugin_identity

EVERY = ("query-document", "query-query", "document-query", "document-document")


def logs(rows: list[list[float]]) -> Tensor:
    """The logarithms, so that a softmax adds up the numbers themselves."""
    return torch.tensor(rows, dtype=torch.float64).log()


def batch_of(valid: list[list[int]] | None = None) -> types.ScoreBatch:
    """Columns p0 n0 p1 n1; what a softmax adds up is written."""
    positive = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    own = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)
    return types.ScoreBatch(
        logs([[4, 2, 1, 3], [5, 1, 2, 6]]),
        positive,
        own,
        torch.tensor(valid or [[1, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool),
        query_query=logs([[0, 7], [7, 0]]),
        document_document=logs([[0, 0, 8, 9], [0, 0, 10, 11], [8, 10, 0, 0], [9, 11, 0, 0]]),
    )


@pytest.mark.parametrize(
    ("directions", "others"),
    [
        (("query-document",), (6, 12)),
        (("query-document", "query-query"), (6 + 7, 12 + 7)),
        (("query-document", "document-query"), (6 + 4 + 5, 12 + 2 + 1)),
        (("query-document", "document-document"), (6 + 17, 12 + 18)),
        (("query-document", "positive-positive"), (6 + 8, 12 + 8)),
        (EVERY, (6 + 7 + 9 + 17, 12 + 7 + 3 + 18)),
    ],
)
def test_directions_by_hand(directions: tuple[str, ...], others: tuple[int, int]) -> None:
    """-log(4 / (4 + others)) and -log(2 / (2 + others)); a positive's own query counts once more, as published."""
    loss = InfoNCE(directions=directions)  # type: ignore[arg-type]
    expected = (math.log((4 + others[0]) / 4) + math.log((2 + others[1]) / 2)) / 2
    assert loss(batch_of()).item() == pytest.approx(expected, abs=1e-12)


def test_own_negatives_and_the_others_positives_by_hand() -> None:
    """As in SPLADE's program: p0 4 against n0 2 and p1 1; p1 2 against p0 5 and n1 6. The others' n0, n1 do not count.

    The slope is softmax less 1 for the positive, over two rows, by the score e^logit.
    """
    batch = batch_of()
    scores = batch.scores.clone().requires_grad_()
    value = InfoNCE(negatives="own_and_positives")(replace(batch, scores=scores))
    value.backward()
    assert value.item() == pytest.approx((math.log(7 / 4) + math.log(13 / 2)) / 2, abs=1e-12)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([(4 / 7 - 1) / 2, 2 / 14, 1 / 14, 0])
    assert scores.grad[1].tolist() == pytest.approx([5 / 26, 0, (2 / 13 - 1) / 2, 6 / 26])
    known = replace(batch, valid=batch.valid & torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]], dtype=torch.bool))
    expected = (math.log(7 / 4) + math.log(8 / 2)) / 2
    assert InfoNCE(negatives="own_and_positives")(known).item() == pytest.approx(expected, abs=1e-12)


def test_what_is_not_valid_is_left_out_in_all_directions() -> None:
    """The second query knows p0: it is no negative of its, nor is it itself one of p0."""
    loss, batch = InfoNCE(directions=("query-document", "document-query")), batch_of([[1, 1, 1, 1], [0, 1, 1, 1]])
    expected = (math.log((4 + 6 + 4) / 4) + math.log((2 + 7 + 3) / 2)) / 2
    assert loss(batch).item() == pytest.approx(expected, abs=1e-12)


def test_temperature_divides_all() -> None:
    """At 1/2 what is added up is squared."""
    loss = InfoNCE(temperature=0.5, directions=("query-document", "query-query"))
    expected = (math.log((16 + 14 + 49) / 16) + math.log((4 + 62 + 49) / 4)) / 2
    assert loss(batch_of()).item() == pytest.approx(expected, abs=1e-12)


def test_gradients_go_to_all_parts() -> None:
    asked = {name: getattr(batch_of(), name).clone().requires_grad_() for name in ("query_query", "document_document")}
    InfoNCE(directions=EVERY)(replace(batch_of(), **asked)).backward()
    queries, documents = asked["query_query"].grad, asked["document_document"].grad
    assert queries is not None and documents is not None
    assert queries[0].tolist() == pytest.approx([0, 7 / 43 / 2]) and queries[1].tolist() == pytest.approx([7 / 84, 0])
    assert documents[0].tolist() == pytest.approx([0, 0, 8 / 86, 9 / 86])
    assert documents[2].tolist() == pytest.approx([8 / 84, 10 / 84, 0, 0]) and not documents[[1, 3]].any()


@pytest.mark.parametrize(
    ("which", "others"),
    [("own", (8 + 4, 6 * 36 + 6)), ("others", (2 + 1 + 27, 6 + 125 + 1)), ("all", (8 + 1 + 27, 216 + 125 + 1))],
)
def test_hardness_by_hand(which: str, others: tuple[int, int]) -> None:
    """A hardness of 2 makes the cube of what is added up, for negatives mined for the query, for others or for all."""
    loss = InfoNCE(hardness=2, hardness_of=which)  # type: ignore[arg-type]
    expected = (math.log((4 + others[0]) / 4) + math.log((2 + others[1]) / 2)) / 2
    assert loss(batch_of()).item() == pytest.approx(expected, abs=1e-12)


def test_hardness_has_no_gradient_and_no_temperature() -> None:
    """s = ln 3 against ln 2: at T = 1/2 the logits are ln 9 and ln 4 + 2 ln 2 = ln 16; the slope is that of s / T."""
    scores = logs([[3, 2]]).requires_grad_()
    sides = [torch.tensor([[side, not side]]) for side in (True, False)]
    batch = types.ScoreBatch(scores, sides[0], sides[1], torch.ones(1, 2, dtype=torch.bool))
    value = InfoNCE(temperature=0.5, hardness=2)(batch)
    value.backward()
    assert value.item() == pytest.approx(math.log(25 / 9))
    assert scores.grad is not None and scores.grad[0].tolist() == pytest.approx([-2 * 16 / 25, 2 * 16 / 25])


def test_margins_of_two_teachers_by_hand() -> None:
    """Own pairs: ((2-1)-(4-1))^2 = 4; in the batch: ((2-1)-(5-4))^2 = 0 and ((2-0)-(5-2))^2 = 1, of which 3/4."""
    sides = [torch.tensor([row], dtype=torch.bool) for row in ([1, 0, 0], [0, 1, 0], [1, 1, 1])]
    given = {"teacher": [[4, 1, math.nan]], "guide": [[5, 4, 2]]}
    batch = types.ScoreBatch(
        torch.tensor([[2.0, 1, 0]], dtype=torch.float64), *sides,
        **{name: torch.tensor(rows, dtype=torch.float64) for name, rows in given.items()},
    )  # fmt: skip
    assert MarginMSE(in_batch=0.75)(batch).item() == pytest.approx(4 + 0.75 * (0 + 1) / 2)
    assert MarginMSE()(batch).item() == pytest.approx(4)
    assert MarginMSE()(replace(batch, teacher=batch.guide)).item() == pytest.approx(1 / 2)
    with pytest.raises(errors.TrainingError, match="margin-mse: the batch has no"):
        MarginMSE(in_batch=0.75)(replace(batch, guide=None))


def test_the_second_teacher_without_own_pairs_by_hand() -> None:
    """TAS-B's program at two queries, columns p0 n0 p1 n1; each query is set against the other's two documents.

    Student's less guide's: row 0 has 2 1 0 3 - 5 4 2 9 = -3 -3 -2 -6, so margins -1 and 3; row 1 has 1 0 4 2 - 1 3 6 0
    = 0 -3 -2 2, so -2 and 1. Squares 1, 9, 4, 1: the mean is 15/4. With own pairs, 0 and 16, it is 31/6.
    """
    positive, own = ([[1, 0, 0, 0], [0, 0, 1, 0]], [[0, 1, 0, 0], [0, 0, 0, 1]])
    sides = [torch.tensor(rows, dtype=torch.bool) for rows in (positive, own, [[1] * 4] * 2)]
    scores = torch.tensor([[2.0, 1, 0, 3], [1, 0, 4, 2]], dtype=torch.float64, requires_grad=True)
    teacher = torch.full_like(scores, math.nan).masked_scatter(sides[0] | sides[1], torch.zeros(4, dtype=torch.float64))
    guide = torch.tensor([[5.0, 4, 2, 9], [1, 3, 6, 0]], dtype=torch.float64)
    batch = types.ScoreBatch(scores, *sides, teacher=teacher.detach(), guide=guide)
    own = ((2 - 1) ** 2 + (4 - 2) ** 2) / 2
    assert MarginMSE(in_batch=0.5)(batch).item() == pytest.approx(own + 0.5 * 31 / 6)
    value = MarginMSE(in_batch=0.5, in_batch_own=False)(batch)
    value.backward()
    assert value.item() == pytest.approx(own + 0.5 * 15 / 4)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([1 + (-1 + 3) / 4, -1, 1 / 4, -3 / 4])
    assert scores.grad[1].tolist() == pytest.approx([2 / 4, -1 / 4, 2 + (-2 + 1) / 4, -2])


def test_needs_follow_the_options() -> None:
    assert needs_of(InfoNCE()) == () and needs_of(InfoNCE(hardness=1)) == ()
    assert needs_of(InfoNCE(directions=("query-document", "positive-positive"))) == ("document_document",)
    assert needs_of(InfoNCE(directions=("query-document", "document-query"))) == ("query_query",)
    assert needs_of(InfoNCE(directions=EVERY)) == ("document_document", "query_query")
    assert needs_of(MarginMSE()) == ("teacher",) and needs_of(MarginMSE(in_batch=1)) == ("teacher", "guide")
    with pytest.raises(errors.TrainingError, match="the batch has no scores for direction query-query"):
        InfoNCE(directions=("query-document", "query-query"))(replace(batch_of(), query_query=None))


def test_keys_of_what_was_there_stay() -> None:
    assert plugin_identity("infonce", InfoNCE())["options"] == {"temperature": 1.0, "negatives": "all"}
    assert plugin_identity("margin-mse", MarginMSE())["options"] == {"temperature": 1.0, "probabilities": False}
    more = plugin_identity("infonce", InfoNCE(hardness=9, hardness_of="others"))["options"]
    assert more == {"temperature": 1.0, "negatives": "all", "hardness": 9, "hardness_of": "others"}


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: InfoNCE(directions=()), "directions must be distinct and include query-document, not none"),
        (lambda: InfoNCE(directions=("query-query",)), "directions must be distinct"),
        (lambda: InfoNCE(directions=("query-document",) * 2), "directions must be distinct"),
        (lambda: InfoNCE(hardness=-1), "hardness must be at least 0, not -1"),
        (lambda: InfoNCE(negatives="own", hardness=9, hardness_of="others"), "hardness_of others has no effect"),
        (lambda: InfoNCE(hardness_of="others"), "hardness_of needs a hardness above 0; set hardness, or remove"),
        (lambda: MarginMSE(in_batch=-1), "in_batch must be at least 0, not -1"),
        (lambda: MarginMSE(in_batch_own=False), "in_batch_own needs in_batch above 0; set in_batch, or remove"),
        (lambda: MarginMSE(temperature=0), "margin-mse: temperature must be above 0, not 0"),
        (lambda: KL(teacher_temperature=0), "kl: temperature must be above 0, not 0"),
    ],
)
def test_options_that_make_no_sense(made: Callable[[], Any], problem: str) -> None:
    with pytest.raises(errors.PluginError, match=problem):
        made()
