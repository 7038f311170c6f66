"""The recipe `many-collections` on two embedded datasets: one report with both and their mean."""

import json
import re

import pytest
from recipes.recipes import NEEDS_PAPERS
from typer.testing import CliRunner

from hardneg.cli.main import app

pytestmark = NEEDS_PAPERS

TRAINED = ("all-t-1", "all-t-2", "all-t-1000", "alone-docstrings", "alone-code")


@pytest.mark.slow
def test_one_report_has_each_collection_and_their_mean(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    small = ["stages.docstrings.loader.max_passages=400", "stages.code.loader.max_passages=300", "seeds=[1]"]
    small += ["dataset.max_passages=400", *(f"stages.{name}.options.max_steps=5" for name in TRAINED)]
    settings = [word for setting in small for word in ("--set", setting)]
    ended = CliRunner().invoke(app, ["recipe", "run", "many-collections", *settings, "--output", str(tmp_path / "out")])
    assert ended.exit_code == 0, ended.output
    page = (tmp_path / "out" / "report.md").read_text()
    assert re.findall("^## (.*)$", page, re.MULTILINE)[-4:-1] == ["mean: all collections", "docstrings", "code"]
    scores = {
        "docstrings": json.loads((tmp_path / "out" / "metrics.json").read_text())["metrics"],
        "code": json.loads((tmp_path / "out" / "metrics-scores-code.json").read_text())["metrics"],
    }
    measured = json.loads((tmp_path / "out" / "analyses" / "across" / "across-collections.json").read_text())
    assert [*measured["systems"]] == [
        "as shipped",
        *(f"all, T = {temperature}" for temperature in (1, 2, 1000)),
        "docstrings alone",
        "code alone",
    ]
    for system, means in measured["systems"].items():
        both = {name: rows[system]["mrr@10"] for name, rows in scores.items()}
        assert means["means"] == pytest.approx(both) and means["mean"] == pytest.approx(sum(both.values()) / 2)
