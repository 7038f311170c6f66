"""A killed `judge` stage resumes: no answered request is repeated, and the artifact is the same."""

import os
import signal
import sys
import time
from pathlib import Path

import forked
import pytest
from hardneg_judge.judge import JUDGEMENTS
from test_judge import CHAT, tree_of, written

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.records import DROPPED, NEGATIVES
from hardneg.store import Artifact, Store

KILLED = Path(__file__).parent / "killed.py"
IN_FLIGHT = 2


def ended(recipe: Path, store: Path) -> Artifact:
    return execute(make_plan(load_recipe(recipe)), Store(store), Options(device="cpu"), Watcher()).artifacts["judged"]


@pytest.mark.slow
def test_a_killed_judging_asks_nothing_twice(tmp_path, served, monkeypatch):
    decide = {"plugin": {**CHAT, "url": served.url, "in_flight": IN_FLIGHT}}
    recipe = written(tmp_path, tree_of(tmp_path, served, decide=decide))
    whole = ended(recipe, tmp_path / "whole")
    asked = len(served.requests)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    served.pause, before = 0.5, len(served.requests)
    for kept in (3, 6):
        program = forked.Program([sys.executable, KILLED, recipe, tmp_path / "killed"], env={**os.environ})
        while len(served.requests) < before + kept:
            assert program.poll() is None
            time.sleep(0.01)
        program.send_signal(signal.SIGKILL)
        program.wait()
        assert list((tmp_path / "killed").glob("*.partial"))
        (journal,) = (tmp_path / "other" / "hardneg" / "answers").iterdir()
        journal.write_bytes(journal.read_bytes() + b'\n["deadbeef", "ye')  # what a kill leaves of a line
    served.pause = 0.0
    again = ended(recipe, tmp_path / "killed")
    assert asked <= len(served.requests) - before <= asked + 2 * IN_FLIGHT
    for name in (NEGATIVES, DROPPED, JUDGEMENTS):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    counted = {name: value for name, value in whole.facts.items() if name.startswith("decide:") and "kept" not in name}
    assert {name: again.facts[name] for name in counted} == counted
    assert again.facts["decide: cached answers"] >= 2
