"""What is released beside the package: its notebook and the page for coding agents run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from recipes.recipes import small_collection

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = json.loads((ROOT / "notebooks" / "first-steps.ipynb").read_text(encoding="utf-8"))["cells"]
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path))
    names: dict[str, object] = {}
    exec("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"), names)
    assert set(names["result"].metrics) == {"as shipped", "trained"}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_commands_for_agents_run(tmp_path: Path) -> None:
    collection = small_collection(tmp_path / "folder")
    page = (ROOT / "skills" / "hardneg" / "SKILL.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ {7}(hardneg .*)$", page, re.MULTILINE)
    assert len(commands) == 5
    environment = {**os.environ, "HARDNEG_STORE": str(tmp_path / "store")}
    for command in commands:
        words = [word.replace("FOLDER", str(collection)) for word in shlex.split(command)[1:]]
        subprocess.run([sys.executable, "-m", "hardneg", *words], cwd=tmp_path, env=environment, check=True)
