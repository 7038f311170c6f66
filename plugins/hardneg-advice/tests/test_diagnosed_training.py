"""Checks of trainings on curves and scores by hand."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from handmade import HandmadeRun, handmade, made
from hardneg_advice.diagnose import learning_curve, outcome, trained_rows

from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.evaluation.significance import compare_all, compare_over_seeds
from hardneg.records import ArtifactError


@pytest.fixture
def run(tmp_path: Path, tiny_model: Path) -> HandmadeRun:
    return handmade(tmp_path, tiny_model)


def history(run: HandmadeRun, losses: Sequence[float], dev: Sequence[float] = (), stage: str = "star") -> None:
    rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
    rows += [{"step": 10 * step, "dev": {"mrr@10": value}} for step, value in enumerate(dev, 1)]
    (made(run, stage) / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def parts(*means: float) -> list[float]:
    """Five fifths of four steps, each around its mean by a tenth."""
    return [mean + sign for mean in means for sign in (0.1, -0.1, 0.1, -0.1)]


@pytest.mark.parametrize(
    ("means", "state"),
    [
        ((5, 4, 3, 2, 1), "unknown"),
        ((5, 1, 2, 2, 3), "suspect"),
        ((5, 1, 1, 1, 1.05), "unknown"),  # by less than a tenth
        ((5, 1, 1, 1, 1.2), "unknown"),  # by less than three errors: each is 0.1155 / 2, 3 * 0.0816 = 0.245
        ((5, 1, 1, 1, 1.3), "suspect"),
    ],
)
def test_a_loss_that_rises_is_suspect(run: HandmadeRun, means: tuple[float, ...], state: str) -> None:
    history(run, parts(*means))
    result = learning_curve(run, "star")
    assert result.state == state
    assert result.figures == {"lowest_loss": pytest.approx(1.0), "last_loss": pytest.approx(means[-1])}
    assert "learning_rate" in result.advice and ("`validation`" in result.advice) == (state == "unknown")


@pytest.mark.parametrize(("dev", "state"), [((0.5, 0.6, 0.58), "suspect"), ((0.5, 0.6, 0.595), "fine")])
def test_validation_that_falls_after_its_best_is_suspect(run: HandmadeRun, dev: Sequence[float], state: str) -> None:
    history(run, [1.0] * 5, dev)
    result = learning_curve(run, "star")
    assert result.state == state and "at step 20" in result.sentence
    assert result.figures == {"metric": "mrr@10", "best": 0.6, "best_step": 20, "last": dev[-1]}


@pytest.fixture
def seeded(tmp_path: Path, tiny_model: Path) -> HandmadeRun:
    return handmade(tmp_path, tiny_model, seeds=[1, 2])


def test_the_curve_of_several_seeds_is_their_mean(seeded: HandmadeRun) -> None:
    assert seeded.stages("train") == ["star-seed-1"]
    history(seeded, parts(5, 1, 2, 2, 3), stage="star-seed-1")
    with pytest.raises(ArtifactError, match="lacks star-seed-2"):
        learning_curve(seeded, "star-seed-1")
    history(seeded, parts(5, 4, 3, 2, 0), stage="star-seed-2")
    result = learning_curve(seeded, "star-seed-1")
    assert result.state == "unknown" and result.figures["last_loss"] == pytest.approx(1.5)


def test_several_seeds_are_tested_over_seeds(seeded: HandmadeRun) -> None:
    by_seed = {seed: {"mrr@10": {f"q{i}": value + seed / 1000 for i, value in enumerate(DOWN)}} for seed in (1, 2)}
    means = {"mrr@10": {f"q{i}": value + 0.0015 for i, value in enumerate(DOWN)}}
    results = {"start": {"mrr@10": {f"q{i}": 0.5 for i in range(200)}}, "STAR": means}
    tests = compare_over_seeds(results, {"STAR": by_seed}, ["start"])
    measured = Measured(results, by_seed={"STAR": by_seed}, over_seeds=tests)
    write_metrics(seeded.folder / "metrics.json", measured)
    result = outcome(seeded, "STAR")
    assert result.sentence == "worse: mrr@10 differs by -0.0985 from 'start' over 200 queries and 2 seeds"
    assert result.state == "suspect"


def test_a_few_steps_tell_nothing_and_dev_at_the_end_alone_little(run: HandmadeRun) -> None:
    history(run, [1.0] * 19)
    assert learning_curve(run, "star").state == "unknown"
    history(run, [1.0] * 19, [0.5])
    result = learning_curve(run, "star")
    assert result.state == "unknown" and "without a dev curve, too high a rate" in result.sentence


def test_where_training_made_it_worse_rate_and_steps_are_named_first(run: HandmadeRun) -> None:
    scores(run, HALF, DOWN, False)
    history(run, [1.0] * 20)
    assert outcome(run, "STAR").advice.startswith("first cut options.learning_rate to a third, or train for fewer")
    history(run, [1.0] * 20, [0.4, 0.5])  # dev rose: something else is why
    assert outcome(run, "STAR").advice.startswith("see the other suspects")


def scores(run: HandmadeRun, baseline: Sequence[float], trained: Sequence[float], compared: bool) -> None:
    results = {
        "start": {"mrr@10": {f"q{i}": value for i, value in enumerate(baseline)}},
        "STAR": {"mrr@10": {f"q{i}": value for i, value in enumerate(trained)}},
    }
    tests = compare_all(results, ["start"]) if compared else []
    write_metrics(run.folder / "metrics.json", Measured(results, tests))


HALF = [0.5] * 200
UP = [0.5 + 0.2 * (i % 2) for i in range(200)]
DOWN = [0.5 - 0.2 * (i % 2) for i in range(200)]
NEAR = [0.5 + 0.001 * (-1) ** i for i in range(200)]


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize(
    ("trained", "state", "word", "difference"),
    [(UP, "fine", "better", 0.1), (DOWN, "suspect", "worse", -0.1), (NEAR, "suspect", "equivalent", 0.0)],
)
def test_the_verdict_is_that_of_the_metrics(
    run: HandmadeRun, trained: list[float], state: str, word: str, difference: float, compared: bool
) -> None:
    scores(run, HALF, trained, compared)
    assert trained_rows(run) == ["STAR"]
    result = outcome(run, "STAR")
    assert result.state == state and result.sentence.startswith(word)
    assert result.figures["difference"] == pytest.approx(difference) and result.figures["baseline"] == "start"
