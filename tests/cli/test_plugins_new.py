"""`hardneg plugins new` writes packages whose own tests pass."""

import os
import subprocess
import sys

import numpy  # noqa: F401  pytester unloads what a test loads first, and numpy loads once only
import pytest
from typer.testing import CliRunner

from hardneg.cli.plugins import app, write_package
from hardneg.records import UsageError

pytest_plugins = ["pytester"]
KINDS = {"dataset": "datasets", "loss": "losses", "miner": "miners", "stage": "stages"}


def test_what_is_written_passes_its_own_tests(pytester, monkeypatch):
    for kind, plural in KINDS.items():
        folder = pytester.path / kind
        done = CliRunner().invoke(app, ["new", kind, f"my-{kind}", "--output", str(folder)])
        assert done.exit_code == 0, done.output
        project = (folder / "pyproject.toml").read_text()
        assert f'my-{kind} = "hardneg_my_{kind}.my_{kind}:My{kind.capitalize()}"' in project
        assert f'entry-points."hardneg.{plural}"' in project
        assert "$" not in "".join(path.read_text() for path in folder.rglob("*.*"))
    sources = [str(pytester.path / kind / "src") for kind in KINDS]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sources))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of pytest: they take a second to load
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed"} and outcomes["passed"] > 20, result.stdout.str()


def test_what_is_written_is_in_good_style(tmp_path):
    for kind in KINDS:
        write_package(kind, "own", tmp_path / kind)
    rules = ["--isolated", "--line-length=120", "--select=E,F,B,UP,SIM,PIE,RUF", "--ignore=RUF001,RUF002,RUF003"]
    subprocess.run([sys.executable, "-m", "ruff", "check", *rules, str(tmp_path)], check=True)


def test_mistakes_are_told(tmp_path):
    with pytest.raises(UsageError, match="did you mean 'miner'"):
        write_package("minre", "own", tmp_path / "new")
    with pytest.raises(UsageError, match="no template for filters; there are: dataset, loss, miner, stage"):
        write_package("filter", "own", tmp_path / "new")
    for name in ("Own", "my_own", "1st", "class", "own-", "../own"):
        with pytest.raises(UsageError, match="is not a plugin name"):
            write_package("miner", name, tmp_path / "new")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not an empty folder"):
        write_package("miners", "own", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
