"""Tests of `recipe verify`: a run folder compared with the bands of its recipe, with numbers computed by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hardneg_papers.command import LEVEL, ROUNDING, Band, bands_file, bands_of, check_bands, record, verify
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.evaluation.metrics_json import Measured, write_metrics
from hardneg.recipes import shipped_recipes
from hardneg.records import LOCK, METRICS, DataError, UsageError


def test_the_half_width_is_that_of_a_prediction_interval() -> None:
    """With t(.975; 4) = 2.776445: .01 * 2.776445 * sqrt(1 / 5 + 1) for one new seed, sqrt(1 / 5 + 1 / 5) for five."""
    band = Band(0.5, 0.01, 5)
    assert band.half_width(1, 0.05) == pytest.approx(0.0304144, abs=1e-7)
    assert band.half_width(5, 0.05) == pytest.approx(0.0175598, abs=1e-7)
    assert Band(0.5, 0.0, 1).half_width(1, LEVEL) == Band(0.5, 1e-9, 5).half_width(1, LEVEL) == ROUNDING


def measured(star: list[float], bm25: float = 0.4) -> Measured:
    scores = {seed: {"mrr@10": {"a": value - 0.1, "b": value + 0.1}} for seed, value in enumerate(star)}
    means = {"mrr@10": {"a": sum(star) / len(star) - 0.1, "b": sum(star) / len(star) + 0.1}}
    results = {"STAR": means, "BM25": {"mrr@10": {"a": bm25, "b": bm25}}}
    return Measured(results, by_seed={"STAR": scores} if len(star) > 1 else {})


def test_bands_hold_the_mean_and_the_deviation_between_seeds() -> None:
    bands = bands_of(measured([0.5, 0.52, 0.54]))
    star = bands["STAR"]["mrr@10"]
    assert (star.mean, star.deviation, star.seeds) == (pytest.approx(0.52), pytest.approx(0.02), 3)
    assert bands["BM25"]["mrr@10"] == Band(0.4, 0.0, 1)


def test_each_value_is_compared_with_the_band_for_its_number_of_seeds() -> None:
    bands = bands_of(measured([0.5, 0.51, 0.52, 0.53, 0.54]))
    one, many = check_bands(measured([0.53]), bands)[0], check_bands(measured([0.53, 0.53, 0.53, 0.53]), bands)[0]
    assert (one.seeds, many.seeds) == (1, 4) and one.inside
    assert one.high - one.low > many.high - many.low
    assert [row.inside for row in check_bands(measured([0.9], bm25=0.402), bands)] == [False, False]


TREE: dict[str, Any] = {
    "title": "small",
    "dataset": {"name": "pydocs"},
    "model": {"name": "packaged:wordllama"},
    "stages": {
        "negatives": {"stage": "mine", "miner": {"name": "random", "count": 2}, "runs": {}},
        "star": {"stage": "train", "negatives": "negatives", "options": {"max_steps": 5}},
    },
    "presets": {"demo": {}},
}


def run_folder(folder: Path, values: list[float], steps: int = 5, **lock: Any) -> Path:
    folder.mkdir(parents=True)
    by_seed = {seed: {"mrr@10": {"q": value}} for seed, value in enumerate(values)}
    mean = sum(values) / len(values)
    write_metrics(folder / METRICS, Measured({"STAR": {"mrr@10": {"q": mean}}}, by_seed={"STAR": by_seed}))
    tree = {name: value for name, value in TREE.items() if name != "presets"}
    tree["stages"] = {**tree["stages"], "star": {**tree["stages"]["star"], "options": {"max_steps": steps}}}
    content = {"recipe": "small", "preset": "demo", "device": "cpu", "keys": {"dataset": "d1"}, "tree": tree}
    (folder / LOCK).write_text(yaml.safe_dump({**content, **lock}), "utf-8")
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(TREE), "utf-8")
    record(str(path), run_folder(tmp_path / "recorded", [0.50, 0.51, 0.52, 0.53, 0.54]))
    return path


def test_settings_the_collection_and_systems_that_differ_are_named(recipe: Path, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "longer", [0.52], steps=50, keys={"dataset": "d2"})
    write_metrics(folder / METRICS, Measured({"ANCE": {"mrr@10": {"q": 0.52}}}))
    assert verify(str(recipe), folder).differences == [
        "stages.star.options.max_steps: 50; the recipe has 5",
        "dataset: d2, but the bands are from d1",
        "metrics.json: no system 'STAR'",
    ]


def test_runs_that_cannot_be_compared_or_recorded_are_refused(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no bands of preset demo for device gpu \(available: cpu\)"):
        verify(str(recipe), run_folder(tmp_path / "gpu", [0.52], device="gpu"))
    with pytest.raises(UsageError, match="this run used preset demo, not minilm"):
        verify(str(recipe), run_folder(tmp_path / "again", [0.525]), "minilm")
    with pytest.raises(UsageError, match="at least 5 seeds"):
        record(str(recipe), run_folder(tmp_path / "one", [0.5, 0.6]))
    with pytest.raises(UsageError, match="max_steps: 50; the recipe has 5"):
        record(str(recipe), run_folder(tmp_path / "longer", [0.5] * 5, steps=50))
    with pytest.raises(UsageError, match=r"no bands of preset demo .*available: none"):
        verify(str(recipe.rename(tmp_path / "none.yaml")), tmp_path / "gpu")


def test_bands_of_other_devices_are_kept(recipe: Path, tmp_path: Path) -> None:
    record(str(recipe), run_folder(tmp_path / "gpu", [0.5] * 5, device="gpu"))
    assert set(json.loads(bands_file(str(recipe)).read_text())["demo"]) == {"cpu", "gpu"}


@pytest.mark.parametrize("text", ["", "[]", '{"demo": {"cpu": {"bands": {"STAR": {"mrr@10": {"mean": 1}}}}}}'])
def test_damaged_bands_are_told_in_a_line(recipe: Path, tmp_path: Path, text: str) -> None:
    folder = run_folder(tmp_path / "again", [0.525])
    bands_file(str(recipe)).write_text(text)
    with pytest.raises(DataError, match="record the bands again"):
        verify(str(recipe), folder)


def test_metrics_of_other_settings_are_seen(recipe: Path, tmp_path: Path) -> None:
    keys = {"dataset": "d1", "scores": "new"}
    assert verify(str(recipe), run_folder(tmp_path / "same", [0.525], keys=keys, measured="new")).holds
    told = "metrics.json: measured with other settings; run the recipe to completion"
    assert verify(str(recipe), run_folder(tmp_path / "old", [0.525], keys=keys, measured="old")).differences == [told]


def test_the_command_exits_with_1_where_the_run_does_not_hold(recipe: Path, tmp_path: Path) -> None:
    good, bad = run_folder(tmp_path / "good", [0.525]), run_folder(tmp_path / "bad", [0.3])
    told = CliRunner().invoke(app, ["recipe", "verify", str(recipe), str(good)])
    assert (told.exit_code, told.stdout.splitlines()[-1]) == (0, "1 of 1 values inside their bands (cpu)")
    told = CliRunner().invoke(app, ["recipe", "verify", str(recipe), str(bad), "--json"])
    assert (told.exit_code, json.loads(told.stdout)["holds"]) == (1, False)


def test_shipped_bands_belong_to_shipped_recipes() -> None:
    names = {path.stem for path in bands_file("star-static").parent.glob("*.json")}
    assert names and names <= set(shipped_recipes())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["star-static", "from-documents"])
def test_a_shipped_recipe_is_inside_its_bands(name: str, tmp_path: Path) -> None:
    """Run the whole demo as a user does. Another Python version has other docstrings, for which there are no bands."""
    folder = tmp_path / "run"
    run = ["recipe", "run", name, "--store", str(tmp_path / "store"), "--output", str(folder), "--device", "cpu"]
    assert CliRunner().invoke(app, run).exit_code == 0
    verified = verify(name, folder)
    if any(line.startswith("dataset: ") for line in verified.differences):
        pytest.skip("pydocs of this Python has other texts than the bands' collection")
    assert verified.holds, verified
