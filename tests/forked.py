"""Python programs in processes that have the large libraries already, as importing those takes seconds of a core.

A server imports them once and forks. What it forks takes its words, variables, folder and files as a new process does,
and ends as one; but its sets have the order of the server's, and it says nothing about what a program imports.
"""

import gc
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "sentence_transformers", "accelerate", "pyarrow", "ranx", "typer", "rich.progress", "pydantic")
_READ_AT_IMPORT = re.compile("CUDA|HF_|HOME$|LD_|MKL|NUMBA|OMP|OPENBLAS|PYTHON(?!PATH)|RAYON|TOKENIZERS|TORCH|TRANSF")
_LONGEST = 1 << 20


class Server:
    """Forks processes of a Python that have the libraries; it ends, and they with it, when this process does."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            command = [python, __file__, str(theirs.fileno())]
            quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
            subprocess.Popen(command, env={**environment, "PYTHONPATH": ""}, pass_fds=[theirs.fileno()], **quiet)

    def ask(self, question: dict[str, Any], files: Sequence[int] = ()) -> Any:
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(question).encode()], files)
            return json.loads(self._channel.recv(_LONGEST) or "null")


_SERVERS: dict[tuple[tuple[str, str], ...], Server] = {}


def _server(python: str, environment: dict[str, str]) -> Server:
    """One for each Python and set of the variables that libraries read as they are imported."""
    read = sorted((name, value) for name, value in environment.items() if _READ_AT_IMPORT.match(name))
    if (key := (("", python), *read)) not in _SERVERS:
        _SERVERS[key] = Server(python, environment)
    return _SERVERS[key]


class Program(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen` of a program of this or another Python, whose process a server makes and waits for."""

    peak = 0
    """Bytes of memory that it took at most, when it has ended."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):  # type: ignore[no-untyped-def]
        pipes, environment = rest[3:9], {**(os.environ if env is None else env)}
        assert preexec_fn is None and not pass_fds, args
        self._server = _server(str(args[0]), environment)
        files = [number if pipe == -1 else pipe for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {"words": [str(word) for word in args[1:]], "cwd": str(cwd or os.getcwd()), "env": environment}
        self.pid = self._server.ask(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        while True:
            pid, status, self.peak = self._server.ask({"wait": self.pid})
            if pid or wait_flags:
                return pid, status
            time.sleep(0.01)

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None and (ended := self._try_wait(os.WNOHANG))[0]:
            self._handle_exitstatus(ended[1])  # type: ignore[attr-defined]
        return self.returncode


def run(command: Sequence[Any], *, check: bool = False, capture_output: bool = False, **options: Any) -> Any:
    """`subprocess.run` of a program of this Python."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture_output else {}
    with Program(command, **pipes, **options) as program:
        try:
            out, err = program.communicate()
        finally:
            program.kill()
    done = subprocess.CompletedProcess(command, program.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _serve(channel: socket.socket) -> tuple[list[str], str]:
    """Forks what is asked for until the other side ends; returns in what was forked alone: its words and PYTHONPATH."""
    running = set[int]()
    while True:
        message, files, *_ = socket.recv_fds(channel, _LONGEST, 3)
        if not message:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        request = json.loads(message)
        if pid := request.get("wait"):
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            answer: object = (ended, status, usage.ru_maxrss << 10)
            running.discard(ended)
        elif (answer := os.fork()) == 0:
            channel.close()
            return _become(request, files)
        else:
            running.add(answer)  # type: ignore[arg-type]
        for file in files:
            os.close(file)
        channel.send(json.dumps(answer).encode())


def _become(request: dict[str, Any], files: list[int]) -> tuple[list[str], str]:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    return request["words"], os.environ.get("PYTHONPATH", "")


def _main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in LIBRARIES:
        with suppress(ImportError):  # packages are tested without some
            import_module(name)
    gc.freeze()
    (first, *words), path = _serve(channel)
    sys.path[1:1] = [folder for folder in path.split(os.pathsep) if folder]
    sys.argv = [first, *words]
    if first == "-m":
        sys.argv, sys.path[0] = words, os.getcwd()
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *words[1:]], ""
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    _main()
