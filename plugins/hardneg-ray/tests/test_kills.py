"""What is left when an actor, Ray's process, the command or a machine is killed: each block, finished."""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
_spec = importlib.util.spec_from_file_location("kill_campaign", BENCHMARKS / "kill_campaign.py")
assert _spec is not None and _spec.loader is not None
campaign = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(campaign)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["actor", "driver", "raylet"])
def test_no_block_is_lost(kind: str, tmp_path: Path) -> None:
    told = campaign.killed_run(tmp_path, kind, random.Random(1))
    campaign.runs_until_done(tmp_path)
    assert told.startswith(kind) and campaign.check(tmp_path) == 60


@pytest.mark.slow
def test_machines_come_and_go() -> None:
    done = subprocess.run([sys.executable, BENCHMARKS / "three_nodes.py"], capture_output=True, text=True)
    assert done.returncode == 0 and "60 blocks, each finished" in done.stdout, done.stdout + done.stderr
