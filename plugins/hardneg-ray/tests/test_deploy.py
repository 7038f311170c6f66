"""The files for Slurm and Kubernetes, as far as they can be checked without either."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hardneg.cli.main import app

DEPLOY = Path(__file__).parents[1] / "deploy"


@pytest.mark.parametrize("name", ["slurm-ray.sbatch", "slurm-torchrun.sbatch"])
def test_the_batch_files_are_sound_shell(name: str) -> None:
    path = DEPLOY / name
    subprocess.run(["bash", "-n", path], check=True)
    lines = path.read_text().splitlines()
    asked = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert len(asked) > 5 and max(asked) < first  # Slurm reads none behind the first command
    for told in ({}, {"HARDNEG_STORE": "/shared"}):
        done = subprocess.run(["bash", path], env={"PATH": "/usr/bin:/bin", **told}, capture_output=True, text=True)
        assert done.returncode and ("HARDNEG_STORE=" if not told else "name a recipe") in done.stderr


def test_their_commands_have_the_options_that_are_given() -> None:
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())["spec"]
    assert job["rayClusterSpec"]["rayVersion"] == version("ray")
    told = job["entrypoint"].split()
    assert told[0] == "hardneg"
    done = CliRunner().invoke(app, [*told[1:3], "--help"], env={"COLUMNS": "200"})
    assert all(word in done.output for word in told if word.startswith("--"))
    line = [sys.executable, "-m", "ray.scripts.scripts", "symmetric-run", "--help"]
    helped = subprocess.run(line, capture_output=True)
    assert b"--min-nodes" in helped.stdout and b"--address" in helped.stdout
