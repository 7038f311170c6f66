"""What is released beside the package: its notebook and the page for coding agents run."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import forked
import pytest
from recipes.recipes import small_collection

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells, on fewer texts and in fewer steps."""
    cells = json.loads((ROOT / "notebooks" / "first-steps.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    fewer = {'max_passages": 2000': 'packages": ["networkx"]', 'max_steps": 100': 'max_steps": 10'}
    for written, short in fewer.items():
        assert text.count(written) == 1, written
        text = text.replace(written, short)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path))
    names: dict[str, object] = {}
    exec(text, names)
    assert set(names["result"].metrics) == {"as shipped", "trained"}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_commands_for_agents_run(tmp_path: Path) -> None:
    collection = small_collection(tmp_path / "folder")
    page = (ROOT / "skills" / "hardneg" / "SKILL.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ {7}(hardneg .*)$", page, re.MULTILINE)
    assert len(commands) == 5
    environment = {**os.environ, "HARDNEG_STORE": str(tmp_path / "store")}
    few = [word for name in ("max_steps", "evaluate_every") for word in ("--set", f"stages.star.options.{name}=2")]
    for command in commands:
        words = [word.replace("FOLDER", str(collection)) for word in shlex.split(command)[1:]]
        line = [sys.executable, "-m", "hardneg", *words, *(few if words[0] == "recipe" else [])]
        done = forked.run(line, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        assert "to use your own data" not in done.stderr
    files = tmp_path.glob("runs/*/metrics.json")
    measured = {path.parent.name: {*json.loads(path.read_text())["metrics"]} for path in files}
    shipped = {"BM25", "as shipped", "STAR"}
    assert measured == {"mine": shipped, "folder": shipped | {"In-Batch Neg"}}
