"""The page for users of sentence-transformers: what it names is there, on both sides, and its program runs."""

import re
from pathlib import Path

import sentence_transformers.sentence_transformer.evaluation as evaluation
import sentence_transformers.sentence_transformer.losses as losses
import sentence_transformers.sparse_encoder.losses as sparse_losses
from tiny import tiny_static

from hardneg.evaluation.metrics import parse_metrics
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


def test_the_miners_metrics_and_options_are_there() -> None:
    miners = {plugin.name for plugin in list_plugins("miners")}
    assert {name for _, second in table("Mining") for name in re.findall(r"miner `([\w-]+)`", second)} <= miners
    metrics = [name for _, second in table("Evaluator") for name in re.findall(r"`(\w+@\d+)`", second)]
    assert len(parse_metrics(metrics)) >= 6
    asked = {name for _, second in table("Trainer") for name in re.findall(r"`(\w+)`", second)}
    fields = set(TrainOptions.__dataclass_fields__)
    assert asked - fields == {"seed", "validation"} - fields and len(asked) > 6


def test_the_program_of_the_evaluator_runs(tmp_path, monkeypatch) -> None:
    assert hasattr(evaluation, "InformationRetrievalEvaluator") and "`InformationRetrievalEvaluator`" in PAGE
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    tiny_static(tmp_path / "trained")
    tiny_static(tmp_path / "other", seed=1)
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    space = {
        "corpus": {"d1": "river engine", "d2": "violin tensor"},
        "queries": {"q1": "river", "q2": "tensor"},
        "relevant_docs": {"q1": ["d1"], "q2": ["d2"]},
    }
    exec(program.replace("sentence-transformers/all-MiniLM-L6-v2", "other"), space)
    assert space["result"].metrics["after"]["recall@100"] == 1.0
