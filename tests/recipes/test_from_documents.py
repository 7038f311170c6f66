"""The recipe `from-documents` on a folder of Markdown, this project's own pages: nothing but documents is known."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardneg.cli.main import app

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_a_folder_of_text_becomes_a_tested_retriever(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    steps = [f"stages.{name}.options.max_steps=10" for name in ("inbatch-neg", "trained")]
    shorter = [word for setting in steps for word in ("--set", setting)] + ["--output", str(tmp_path / "out")]
    ended = CliRunner().invoke(
        app, ["recipe", "run", "from-documents", "--set", f"dataset=documents:{PAGES}", *shorter]
    )
    assert ended.exit_code == 0, ended.output
    scores = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [*scores["metrics"]] == ["In-Batch Neg", "Hard negatives", "BM25", "as shipped"]
    queries = list(scores["per_query"]["as shipped"]["mrr@10"])
    assert len(queries) > 20 and {query.split(":")[0] for query in queries} == {"heading", "inverse-cloze", "crop"}
    assert (tmp_path / "out" / "model" / "model.safetensors").exists() and (
        tmp_path / "out" / "index" / "docid"
    ).exists()
    page = (tmp_path / "out" / "report.md").read_text()
    assert f"{len(queries)} written queries of split test, over " in page
    assert "It was trained on queries that were written from the passages, which nobody has asked." in page
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert re.search(r"- Dataset: [\d,]+ passages, [\d,]+ training queries, written from them\n", card)
    assert f"Means over {len(queries)} written queries of split test." in card
