"""Which torch is installed: by a pip that only writes down what it is asked."""

import http.server
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USUAL = "install --quiet --disable-pip-version-check -c constraints.txt torch"


class Answers(http.server.BaseHTTPRequestHandler):
    """An index that is there."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *told: object) -> None:
        """Nothing."""


@pytest.fixture
def index() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def install(folder: Path, *arguments: str, fails_on: str = "nothing", **environment: str) -> tuple[list[str], str]:
    """What pip was asked, call by call, and what the script said."""
    python, asked = folder / "python", folder / "asked"
    python.write_text(
        f"""#!/bin/sh
[ "$1" = -m ] || exec {sys.executable} "$@"
shift 2
echo "$@" >> {asked}
case "$*" in *{fails_on}*) exit 1 ;; esac
"""
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    given = {"NVIDIA_DEVICES": str(folder / "nvidia"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **environment}
    command = ["bash", ROOT / ".ci" / "install-torch", python, *arguments]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=True, timeout=120)
    return asked.read_text().splitlines(), done.stdout


@pytest.fixture(autouse=True)
def no_card() -> None:
    import shutil

    if sys.platform != "linux" or shutil.which("nvidia-smi"):
        pytest.skip("the choice is for Linux, and is tried where there is no nvidia-smi")


def test_without_a_card_the_build_for_cpus(tmp_path: Path, index: str) -> None:
    asked, said = install(tmp_path, TORCH_CPU_INDEX=index)
    words = f"install --quiet --disable-pip-version-check --index-url {index} --no-deps -c constraints.txt torch"
    assert asked == [words]
    assert "build for CPUs" in said


def test_with_a_card_the_usual_one(tmp_path: Path, index: str) -> None:
    (tmp_path / "nvidia0").touch()
    asked, said = install(tmp_path, TORCH_CPU_INDEX=index)
    assert asked == [USUAL] and "with CUDA" in said


def test_what_cannot_be_installed_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        install(tmp_path, fails_on="torch", TORCH_CPU_INDEX="http://127.0.0.1:9")
