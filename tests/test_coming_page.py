"""The page for users of sentence-transformers: what it names is there, on both sides, and its program runs."""

import re
from pathlib import Path

import pytest
import sentence_transformers.sentence_transformer.losses as losses
import sentence_transformers.sparse_encoder.losses as sparse_losses
import torch
from torch.nn.functional import normalize

from hardneg.evaluation.metrics import parse_metrics
from hardneg.losses.infonce import InfoNCE
from hardneg.records import ScoreBatch
from hardneg.registry import list_plugins
from hardneg.training.options import TrainOptions

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from-sentence-transformers.md").read_text(encoding="utf-8")


def table(heading: str) -> list[tuple[str, str]]:
    """The rows below a heading, each as its two columns."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [(first, second) for first, second in rows[2:]]


def test_the_losses_are_those_of_both() -> None:
    rows = table("Losses")
    theirs = {name for first, _ in rows for name in re.findall(r"`(\w+Loss)", first)}
    assert len(theirs) >= 9 and all(hasattr(losses, name) or hasattr(sparse_losses, name) for name in theirs)
    ours = {plugin.name for plugin in list_plugins("losses")}
    named = {name for _, second in rows for name in re.findall(r"`([a-z-]+)`", second)} & ours
    assert named >= {"infonce", "margin-mse", "kl", "triplet", "star", "ranknet", "nll", "hardest", "lambda"}


def test_both_directions_in_one_softmax_are_the_joint_partition() -> None:
    """The row of both directions has the loss of sentence-transformers; with a softmax each it is another."""
    torch.manual_seed(3)
    queries, documents = (normalize(torch.randn(4, 8), dim=1) for _ in range(2))
    scores, own = queries @ documents.T, torch.eye(4, dtype=torch.bool)
    batch = ScoreBatch(scores, own, ~own & False, torch.ones(4, 4, dtype=torch.bool), query_query=queries @ queries.T)
    ours = InfoNCE(temperature=0.05, directions=("query-document", "document-query"))(batch)
    directions = ("query_to_doc", "doc_to_query")
    theirs = {
        mode: losses.MultipleNegativesRankingLoss(None, directions=directions, partition_mode=mode)
        for mode in ("joint", "per_direction")
    }
    values = {mode: loss.compute_loss_from_embeddings([queries, documents], None) for mode, loss in theirs.items()}
    values = {mode: value.item() for mode, value in values.items()}
    assert ours.item() == pytest.approx(values["joint"], rel=1e-5) != pytest.approx(values["per_direction"], rel=1e-2)
    [(_, row)] = [row for row in table("Losses") if "directions=" in row[0]]
    assert "`temperature: 0.05`, `directions: [query-document, document-query]`" in row


def test_the_miners_metrics_and_options_are_there() -> None:
    miners = {plugin.name for plugin in list_plugins("miners")}
    assert {name for _, second in table("Mining") for name in re.findall(r"miner `([\w-]+)`", second)} <= miners
    metrics = [name for _, second in table("Evaluator") for name in re.findall(r"`(\w+@\d+)`", second)]
    assert len(parse_metrics(metrics)) >= 6
    asked = {name for _, second in table("Trainer") for name in re.findall(r"`(\w+)`", second)}
    fields = set(TrainOptions.__dataclass_fields__)
    assert asked - fields == {"seed", "validation"} - fields and len(asked) > 6
