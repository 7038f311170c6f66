"""The example package, as a stranger installs it beside hardneg's wheel in an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_an_outside_package_from_installation_to_recipe(tmp_path: Path, tiny_model: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    parents = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))
    environment = {**os.environ, "PYTHONPATH": "", "HARDNEG_STORE": str(tmp_path / "store"), "COLUMNS": "200"}

    def call(*arguments: object) -> str:
        command = [str(python), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = ["--disable-pip-version-check", "--quiet"]
    wheels, sources = tmp_path / "wheels", [ROOT, ROOT / "plugins" / "hardneg-example"]
    subprocess.run([sys.executable, "-m", "pip", *pip, "wheel", "--no-deps", "-w", wheels, *sources], check=True)
    subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", python.parents[1]], check=True
    )
    site = Path(call("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    install = [sys.executable, "-m", "pip", *pip, "install", "--no-deps", "--target", site]
    subprocess.run([*install, *sorted(wheels.glob("*.whl"))], check=True)
    (site / "parents.pth").write_text(parents.replace(os.pathsep, "\n"))  # their own .pth files are not read

    assert call("-c", "import hardneg; print(hardneg.__file__)").startswith(str(site))
    tests = ROOT / "plugins" / "hardneg-example" / "tests"
    assert " passed" in call("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", tests)
    assert "simans" in call("-m", "hardneg", "plugins", "list", "miners")
    assert "sharpness: float = 1.0" in call("-m", "hardneg", "plugins", "show", "miners", "simans")
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["static"]["miner"] = {"name": "simans", "count": 5, "sharpness": 20.0}
    recipe = write_recipe(tmp_path / "small.yaml", tree)
    call("-m", "hardneg", "recipe", "run", recipe, "--until", "static", "--out", "out", "--device", "cpu")
    assert "negatives" in call("-m", "hardneg", "artifacts", "list")
