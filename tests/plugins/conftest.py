"""An environment of its own with hardneg's wheel and those of the packages in plugins/, as strangers install them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "hardneg-cagra",
    "hardneg-example",
    "hardneg-electra",
    "hardneg-http",
    "hardneg-judge",
    "hardneg-ray",
    "hardneg-reader",
)


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs that environment's Python with some arguments, in a folder of its own, and gives what it printed."""
    folder = tmp_path_factory.mktemp("outside")
    python = folder / "venv" / "bin" / "python"
    parents = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))
    own = {"PYTHONPATH": "", "HARDNEG_STORE": str(folder / "store"), "XDG_CACHE_HOME": str(folder / "cache")}

    def call(*arguments: object) -> str:
        command, environment = [str(python), *map(str, arguments)], {**os.environ, **own, "COLUMNS": "200"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = ["--disable-pip-version-check", "--quiet"]
    wheels, sources = folder / "wheels", [ROOT, *(ROOT / "plugins" / name for name in PACKAGES)]
    subprocess.run([sys.executable, "-m", "pip", *pip, "wheel", "--no-deps", "-w", wheels, *sources], check=True)
    subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", python.parents[1]], check=True
    )
    site = Path(call("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    install = [sys.executable, "-m", "pip", *pip, "install", "--no-deps", "--target", site]
    subprocess.run([*install, *sorted(wheels.glob("*.whl"))], check=True)
    (site / "parents.pth").write_text(parents.replace(os.pathsep, "\n"))  # their own .pth files are not read
    assert call("-c", "import hardneg; print(hardneg.__file__)").startswith(str(site))
    return call
