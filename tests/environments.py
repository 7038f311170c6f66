"""An environment of its own with wheels of this checkout, as strangers install them."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import forked

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def environment(folder: Path, packages: Sequence[Path] = ()) -> Callable[..., str]:
    """The commands of an environment with the wheels of hardneg and of `packages`, run in a folder of its own.

    It has the libraries of this one, but nothing of hardneg's that is installed here. Its Python's programs are forked
    from a process that has imported libraries; `path` is a folder of packages for one.
    """
    bin = folder / "venv" / "bin"
    wheels, libraries, work = folder / "wheels", folder / "site-packages", folder / "work"
    own = {"HARDNEG_STORE": str(folder / "store"), "XDG_CACHE_HOME": str(folder / "cache")}

    def call(command: str, *arguments: object, path: object = "") -> str:
        words = [str(bin / command), *map(str, arguments)]
        variables = {**os.environ, **own, "COLUMNS": "200", "PYTHONPATH": str(path)}
        run = forked.run if command == "python" else subprocess.run
        done = run(words, cwd=work, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT, *packages], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bin.parent], check=True)
    libraries.mkdir()  # hypothesis parses each module that is imported from elsewhere than a site-packages
    work.mkdir()
    for place in reversed([Path(path) for path in sys.path if path.endswith("-packages")]):
        for path in place.iterdir():
            if "hardneg" not in path.name:
                (libraries / path.name).unlink(missing_ok=True)
                (libraries / path.name).symlink_to(path)
    (site,) = bin.parent.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{libraries}\n")
    install = [*PIP, "--python", bin / "python", "install", "--no-deps", "--no-index"]
    subprocess.run([*install, *sorted(wheels.glob("*.whl"))], check=True)
    return call
