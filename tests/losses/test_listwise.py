"""Listwise losses: by hand, by the kit, and beside those of sentence-transformers."""

from typing import Any

import pytest
import torch
from sentence_transformers.cross_encoder import losses as published

from hardneg.losses.listwise import AdrMse, ListMLE, ListNet
from hardneg.records import errors, types


def listed(scores: Any, labels: Any = None) -> types.ScoreBatch:
    """Rows of a query's own documents, nan where a row is shorter; the first document is the positive."""
    scores = torch.as_tensor(scores, dtype=torch.float64)
    valid = scores.isfinite()
    positive = torch.zeros_like(valid)
    positive[:, 0] = True
    teacher = None if labels is None else torch.as_tensor(labels, dtype=torch.float64)
    return types.ScoreBatch(scores.nan_to_num(), positive, valid & ~positive, valid, teacher=teacher)


def test_by_hand() -> None:
    batch = listed([[1.0, 0.0, 0.0]])
    # ListNet: softmax(1, 0, 0) = (.5761, .2119, .2119) as labels and as scores
    assert float(ListNet()(batch)) == pytest.approx(-(0.576117 * -0.551445 + 2 * 0.211942 * -1.551445), abs=1e-5)
    # ListMLE: -log(e / (e + 2)) - log(1 / 2)
    assert float(ListMLE()(batch)) == pytest.approx(0.551445 + 0.693147, abs=1e-5)
    # ranks 1, 2.5, 2.5; approximately 1 + 2 sigmoid(-1) = 1.537883 and 1 + sigmoid(1) + 1/2 = 2.231059
    expected = (0.537883**2 / 1 + 2 * (2.5 - 2.231059) ** 2 / 1.807355) / 3
    assert float(AdrMse()(batch)) == pytest.approx(expected, abs=1e-5)


def theirs(name: str, scores: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
    """A loss of sentence-transformers on given scores: a model that has them ready for each pair."""
    rows = [[row.isfinite().sum()] for row in scores]
    flat = torch.cat([row[: int(count[0])] for row, count in zip(scores, rows, strict=True)])
    given = iter(flat.split(1))

    class Ready(torch.nn.Module):
        num_labels, device = 1, torch.device("cpu")

        def preprocess(self, pairs: Any, **_: Any) -> dict[str, Any]:
            return {"count": torch.tensor(len(pairs))}

        def forward(self, tokens: dict[str, Any]) -> dict[str, torch.Tensor]:
            return {"scores": torch.cat([next(given) for _ in range(int(tokens["count"]))])}

    loss = getattr(published, name)(Ready(), mini_batch_size=-1, **options)
    documents = [["text"] * int(count[0]) for count in rows]
    kept = [row[: int(count[0])].float() for row, count in zip(labels, rows, strict=True)]
    value: torch.Tensor = loss([["query"] * len(documents), documents], kept)
    return value


@pytest.mark.parametrize(
    ("loss", "name", "options"),
    [
        (ListNet, "ListNetLoss", {}),
        (ListMLE, "ListMLELoss", {"respect_input_order": False}),
        (AdrMse, "ADRMSELoss", {}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_and_gradients_are_those_of_sentence_transformers(loss: Any, name: str, options: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, 6, generator=generator)
    labels = torch.stack([torch.randperm(6, generator=generator) for _ in range(4)]).float()
    scores[1, 4:], labels[1, 4:] = torch.nan, torch.nan  # a shorter list
    ours, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    mask = scores.isfinite()
    batch = types.ScoreBatch(ours.nan_to_num(), mask & (torch.arange(6) == 0), mask, mask, teacher=labels)
    value = loss(labels="teacher")(batch)
    expected = theirs(name, other, labels, **options)
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    value.backward()
    expected.backward()
    assert ours.grad is not None and other.grad is not None
    torch.testing.assert_close(ours.grad[mask], other.grad[mask], atol=1e-5, rtol=1e-4)


def test_a_document_alone_teaches_nothing() -> None:
    for loss in (ListNet(), ListMLE(), AdrMse()):
        assert float(loss(listed([[3.0, torch.nan]]))) == 0.0


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(errors.PluginError, match="listnet: labels must be judged or teacher, not 'ranks'"):
        ListNet(labels="ranks")  # type: ignore[arg-type]
    with pytest.raises(errors.PluginError, match="adr-mse: alpha must be above 0"):
        AdrMse(alpha=0.0)
    with pytest.raises(errors.TrainingError, match="listmle: the batch has no teacher's scores"):
        ListMLE(labels="teacher")(listed([[1.0, 2.0]]))
