"""Plain commands in two processes, and how processes notice that others are gone or see other files."""

import logging
import os
import socket
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import forked
import pytest
from recipe.recipes import large_collection

from hardneg.cli import launch, watched
from hardneg.cli.launch import launches
from hardneg.records.errors import UsageError
from hardneg.runtime.distributed import World, _interface, gpu_of, world


@pytest.mark.slow
def test_two_processes_encode_and_search_the_same_bytes(tmp_path: Path, tiny_model: Path) -> None:
    large_collection(tmp_path / "data")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    line = ["--dataset", "beir:data", "--model", str(tiny_model), "--set", "model.document_length=24"]
    line += ["--device", "cpu"]
    for count in "12":
        command = [sys.executable, "-m", "hardneg", "search", *line, "--split", "train", "--depth", "20"]
        own = ["--store", f"store{count}", "--output", f"{count}.trec.gz", "--num-processes", count]
        ran = forked.run([*command, *own], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == f"{count}.trec.gz: 4,200 queries\n"
        assert ran.stderr.count("index: encode") == ran.stderr.count("run: search") == 1
    assert (tmp_path / "1.trec.gz").read_bytes() == (tmp_path / "2.trec.gz").read_bytes()
    indexes = [next(tmp_path.glob(f"store{count}/*/docid")).with_name("index").read_bytes() for count in "12"]
    assert indexes[0] == indexes[1]
    assert len(indexes[0]) == 45 + 9000 * 32 * 4


def attended(said: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[int, bool]], bytes]:
    """What the first of three processes makes of the last words of process 1, and what it tells process 2."""
    monkeypatch.setattr(watched, "_GRACE", 0.0)
    (ours, one), (other, two) = socket.socketpair(), socket.socketpair()
    calls: list[tuple[int, bool]] = []
    with ours, other, two:
        one.sendall(said)
        one.close()
        ending = threading.Event()
        watched._attend(1, {1: ours, 2: other}, ending, lambda rank, in_order: calls.append((rank, in_order)))
        two.settimeout(1)
        return calls, two.recv(8)


def test_a_connection_that_ends_without_a_word_is_a_process_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attended(b"", monkeypatch) == ([(1, False)], b"       1")
    assert attended(b"       1", monkeypatch) == ([(1, True)], b"       1")
    assert attended(b"       2", monkeypatch) == ([(2, False)], b"       2")


def test_nothing_is_told_where_this_process_ends_itself() -> None:
    ours, one = socket.socketpair()
    one.close()
    ending = threading.Event()
    ending.set()
    with ours:
        watched._attend(1, {1: ours}, ending, lambda rank, in_order: pytest.fail("told"))


def test_strangers_who_say_nothing_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "MEETING", timedelta(seconds=20))
    monkeypatch.setattr(watched, "_POLITE", 0.2, raising=False)
    lines = []

    def asked(told: list[Any]) -> None:
        """A stranger comes first, one that hangs up next, then process 1."""
        port, token = told
        lines.extend(socket.create_connection(("127.0.0.1", port)) for _ in range(4))
        lines[1].close()
        lines[2].sendall(b"GET / HTTP/1.1")
        lines[3].sendall(f"{token}       1".encode())

    monkeypatch.setattr(watched, "from_first", asked)
    found = watched._connect(World(0, 2, 0, 2))
    assert list(found) == [1] and found[1].getpeername() == lines[3].getsockname()
    assert lines[2].recv(1) == b""  # hung up on
    for line in (*found.values(), *lines):
        line.close()


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the first of two processes, alone on its machine; the other one agrees to all."""
    agreed = {"world": lambda: World(0, 2, 0, 1), "barrier": lambda: None, "from_first": lambda value: 7}
    for name, change in agreed.items():
        monkeypatch.setattr(launch, name, change)


def test_a_store_that_is_not_shared_is_told(tmp_path: Path, two_machines: None) -> None:
    with pytest.raises(UsageError, match="process 0 does not see what process 1 writes there; put the store on"):
        launch._check_shared(tmp_path, seconds=0)
    assert not list((tmp_path / "locks").iterdir())
    (tmp_path / "locks" / "meeting-7-1").touch()
    launch._check_shared(tmp_path, seconds=0)
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["meeting-7-1"]


def test_the_single_process_of_accelerate_launch_cpu_does_not_work_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    assert not launches(None)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert launches(2)
    with pytest.raises(UsageError, match="starts one process and gives it no number; pass --multi_gpu"):
        launches(None)
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    with pytest.raises(UsageError, match="or set RANK and WORLD_SIZE"):
        launches(2)


def test_a_launch_leaves_the_log_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    monkeypatch.setattr(launch, "_torchrun", lambda count, command: levels.append(logging.root.manager.disable))
    monkeypatch.setenv(launch.PROCESSES_VARIABLE, "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launch.launch(2, "cpu")
    assert (levels, logging.root.manager.disable) == ([logging.ERROR], logging.NOTSET)


def test_the_place_on_a_machine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "4", "RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert world() == World(3, 4, 0, 1) and world().several_machines
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not world().several_machines
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert world() == World(3, 4, 1, 2) and world().several_machines


def test_loopback_leads_to_no_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert _interface() is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ACCELERATE_USE_DEEPSPEED", "true", "leave DeepSpeed out"),
        ("ACCELERATE_USE_FSDP", "1", "leave FSDP out"),
        ("ACCELERATE_USE_MEGATRON_LM", "True", "leave Megatron-LM out"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "option `accumulate`"),
        ("ACCELERATE_MIXED_PRECISION", "bf16", "option `precision`"),
    ],
)
def test_settings_of_the_launcher_that_would_change_a_training_are_refused(monkeypatch, name, value, said):
    with launch.together("cpu"):
        pass
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"{name}.*{said}"), launch.together("cpu"):
        pass


def test_a_launcher_may_show_each_process_one_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    here = World(1, 4, 1, 4)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpu_of(here) is None  # the card is every process's
    monkeypatch.setenv("RANK", "1")
    assert gpu_of(here) == 0
    monkeypatch.setenv("HARDNEG_PROCESSES", "4")
    assert gpu_of(here) is None  # one card for four processes that hardneg itself started
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert gpu_of(here) == 1
