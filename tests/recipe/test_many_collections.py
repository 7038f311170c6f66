"""The recipe `many-collections` on two embedded datasets: one report with both and their mean."""

import json
import re

import pytest
from typer.testing import CliRunner

from hardneg.cli.main import app


@pytest.mark.slow
def test_one_report_has_each_collection_and_their_mean(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    small = ["for.collection.docstrings.loader.max_passages=400", "for.collection.code.loader.max_passages=300"]
    small += ["dataset.max_passages=400", "defaults.train.options.max_steps=5", "seeds=[1]"]
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
