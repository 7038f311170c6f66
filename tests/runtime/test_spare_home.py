"""Evaluation works where the user's home cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardneg.runtime.ranx_uncompiled import spare_home

HOME = "IR_DATASETS_HOME"


def test_evaluate_where_the_home_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, in which nothing can be made")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "run").write_text("q1 Q0 d1 1 1 x\n")
    words = ["evaluate", "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run"), "--metrics", "mrr@10"]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "HARDNEG_STORE": str(tmp_path / "store")}
    environment.pop(HOME, None)
    done = subprocess.run(
        [sys.executable, "-m", "hardneg", *words], text=True, capture_output=True, check=False, env=environment
    )
    assert done.returncode == 0 and "1.0000" in done.stdout, done.stderr


@pytest.mark.parametrize("given", [None, "/proc/nothing"])
def test_it_is_there_for_the_block_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    monkeypatch.setenv("HOME", "/proc/nothing")
    monkeypatch.delenv(HOME, raising=False)
    if given:
        monkeypatch.setenv(HOME, given)
    with spare_home():
        spare = Path(os.environ[HOME])
        assert spare.is_dir()
    assert os.environ.get(HOME) == given and not spare.exists()
    monkeypatch.setenv(HOME, str(tmp_path / "own"))
    with spare_home():
        assert os.environ[HOME] == str(tmp_path / "own")
