"""What is released beside the package: its notebook and the page for coding agents run; builds have one version."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from recipes.recipes import small_collection

import hardneg

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


def test_all_packages_have_one_version() -> None:
    places = [ROOT / "CITATION.cff", *ROOT.glob("plugins/hardneg-*/pyproject.toml")]
    found = {path: re.findall(r'^version ?[:=] "?([^"\n]+)', path.read_text(encoding="utf-8"), re.M) for path in places}
    assert {str(path): v for path, v in found.items() if v != [hardneg.__version__]} == {}
