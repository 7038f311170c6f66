"""System errors as one line with an exit code: full disks, closed folders, invalid stores, missing devices."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli.commands import every_command
from command_line import call

from hardneg.cli.main import as_hardneg_error
from hardneg.functions.session import usual_store
from hardneg.records import ArtifactError, DataError, UsageError
from hardneg.runtime import check_device, known_devices
from hardneg.store import Store

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def hardneg(place: Path, *arguments: str, stdout: Path | None = None, stderr: Path | None = None, **more: str):
    """Exit code, stdout and stderr of a process of its own."""
    streams = [path.open("w") if path else subprocess.PIPE for path in (stdout, stderr)]
    environment = {**os.environ, "HARDNEG_STORE": str(place / "usual"), **more}
    command = [sys.executable, "-m", "hardneg", *arguments]
    done = subprocess.run(command, cwd=place, stdout=streams[0], stderr=streams[1], text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


@needs_full
@pytest.mark.parametrize("arguments", [["--help"], ["plugins", "list"], ["recipe", "list", "--json"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout(tmp_path: Path, arguments: list[str], unbuffered: str) -> None:
    code, _, err = hardneg(tmp_path, *arguments, stdout=FULL, PYTHONUNBUFFERED=unbuffered)
    assert code == 5 and err.startswith("hardneg: standard output") and err.count("\n") == 1
    assert err.endswith(": the disk is full; free some space and run again\n")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_without_the_characters(tmp_path: Path, encoding: str) -> None:
    for name, second in (("a", "d1"), ("b", "d2")):
        (tmp_path / f"{name}-é.run").write_text("".join(f"q{n} Q0 {second} 1 1.0 x\n" for n in range(9)))
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 d1 1\n" for n in range(9)))
    given = ["evaluate", "--run", "a-é.run", "--run", "b-é.run", "--qrels", "qrels", "--metric", "mrr@10"]
    code, out, err = hardneg(tmp_path, *given, PYTHONIOENCODING=encoding)
    assert code == 0 and "1.0000" in out, err
    code, out, err = hardneg(tmp_path, *given, "--json", PYTHONIOENCODING=encoding)
    assert code == 0 and "a-é" in str(json.loads(out)), err


@pytest.mark.parametrize(
    ("store", "message"),
    [("file", "is a file; give a folder with --store"), ("x" * 300, "File name too long"), ("file/deep", "cannot be")],
)
@pytest.mark.parametrize("command", [["artifacts", "list"], ["artifacts", "gc"], ["data", "show", "pydocs"]])
def test_a_store_that_cannot_be_one(tmp_path: Path, store: str, message: str, command: list[str]) -> None:
    (tmp_path / "file").touch()
    error = call(*command, "--store", tmp_path / store).exception
    assert isinstance(error, ArtifactError) and message in str(error)


def test_an_empty_store_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "usual"))
    (tmp_path / "own").mkdir()
    Store(tmp_path / "usual").workspace(f"{0:032x}")
    result = call("artifacts", "gc", "--delete", "--store", "")
    assert result.exit_code == 0 and "1 folders" in result.output
    assert (tmp_path / "own").exists() and not (tmp_path / "usual" / "unused").exists()
    assert usual_store("").root == tmp_path / "usual" and usual_store(".").root == tmp_path
    monkeypatch.setenv("HARDNEG_STORE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert usual_store("").root == tmp_path / "cache" / "hardneg" / "store"


def test_a_store_that_is_not_there_is_told(tmp_path: Path) -> None:
    listed = ("artifacts", "list", "--store", tmp_path / "typo")
    result = call(*listed)
    told = f"note: no store at {tmp_path / 'typo'} yet; it will be created\n"
    assert result.exit_code == 0 and result.stderr == told
    (tmp_path / "typo").mkdir()
    assert call(*listed).stderr == ""


def test_a_command_without_a_store_works_where_none_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("q0 Q0 d1 1 2 x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", "/proc/nothing/store")
    result = call("fuse", "--run", "a", "--run", "b", "--output", "c.trec.gz")
    assert result.exit_code == 0 and (tmp_path / "c.trec.gz").exists()
    assert result.stderr.startswith("note: c.trec.gz: not recorded (")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ArtifactError, "standard output or a file: the"),
        (OSError(errno.EROFS, "Read-only file system", "/a/b"), ArtifactError, "/a/b: the disk is read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "/new"), ArtifactError, "/new: cannot be"),
        (OSError(errno.ENOSPC, "No space left on device", "read", None, "written"), ArtifactError, "written: the disk"),
        (OSError(errno.EIO, "Input/output error", "corpus.jsonl"), DataError, "corpus.jsonl: cannot be read (Input"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), DataError, "x: cannot be read (No such"),
        (OSError("odd"), DataError, "standard output or a file: cannot be read (odd)"),
    ],
)
def test_errors_of_the_system_in_words(error: OSError, kind: type[Exception], message: str) -> None:
    told = as_hardneg_error(error)
    assert type(told) is kind and str(told).startswith(message)


def test_what_may_not_be_read_or_seen_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "qrels").mkdir()
    denied = {tmp_path: os.X_OK, tmp_path / "qrels": os.R_OK}
    for place, way in denied.items():
        monkeypatch.setattr(os, "access", lambda path, mode, at=place, no=way: (Path(path), mode) != (at, no))
        told = as_hardneg_error(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "qrels")))
        assert isinstance(told, DataError) and str(told) == f"{tmp_path}/qrels: cannot be read (Permission denied)"


@pytest.fixture
def gpus(monkeypatch):
    """Gives this machine as many GPUs as asked for, as far as torch tells."""

    def give(count):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return give


@pytest.mark.parametrize(
    ("count", "device", "told"),
    [
        (0, "cuda", "found no cuda device here; available: cpu"),
        (1, "cuda:7", "this machine has no cuda:7; available: cpu, cuda, cuda:0"),
        (2, "cdua", "no such device; did you mean 'cuda'?; available: cpu, cuda, cuda:0, cuda:1"),
        (0, "", "no such device"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are(gpus, count, device, told):
    gpus(count)
    with pytest.raises(UsageError) as refused:
        check_device(device)
    assert str(refused.value).startswith(f"device {device}: ") and told in str(refused.value)


def test_what_is_there_is_taken(gpus):
    gpus(2)
    for device in known_devices():
        check_device(device)
    assert known_devices() == ["cpu", "cuda", "cuda:0", "cuda:1"]


def test_every_command_that_computes_refuses_it_before_it_looks_at_anything_else(gpus, session):
    gpus(0)
    seen = 0
    for words, command in every_command().items():
        if "--device" not in {name for option in command.params for name in option.opts}:
            continue
        given = [word for option in command.params if option.required for word in _filled(option)]
        result = call(*words, *given, "--device", "cdua")
        assert isinstance(result.exception, UsageError) and "--device cdua" in str(result.exception), words
        seen += 1
    assert seen > 11
    assert not (session / "store").exists()


def _filled(option):
    given = "8" if option.opts[0] == "--dims" else "x.trec.gz"
    return ["x"] if option.param_type_name == "argument" else [option.opts[0], given]
