"""hardneg without any package of plugins/, and each of these beside hardneg alone.

Wheels are installed into an environment of its own (`environments`), so what is not installed is not hidden: it is not
there. A package is added as its wheel, unpacked on the path.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from environments import ROOT, environment
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.registry.plugins import KINDS

PACKAGES = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    return environment(tmp_path_factory.mktemp("core"))


@pytest.mark.slow
def test_the_core_imports_lists_plans_and_runs_alone(
    core: Callable[..., str], tmp_path: Path, tiny_model: Path
) -> None:
    packages = "from hardneg.registry.plugins import list_plugins as l; print({p.package for p in l()})"
    assert core("python", "-c", packages).strip() == "{'hardneg'}"
    modules = "import importlib.util as u; print([n for n in %r if u.find_spec(n)])"
    assert core("python", "-c", modules % [name.replace("-", "_") for name in PACKAGES]).strip() == "[]"
    every = "import hardneg, pkgutil, importlib as i; n = [m.name for m in pkgutil.walk_packages(hardneg.__path__, "
    every += "'hardneg.') if not m.name.endswith('__main__')]; [i.import_module(m) for m in n]; print(len(n))"
    assert int(core("python", "-c", every)) > 500
    listed = core("hardneg", "plugins", "list")
    assert all(re.search(rf"^{kind}\b", listed, re.MULTILINE) for kind in KINDS)
    assert "star-passage" in core("hardneg", "recipe", "list")
    recipe = write_recipe(tmp_path / "small.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))
    assert re.search(r"^ *star +train ", core("hardneg", "recipe", "plan", recipe), re.MULTILINE)
    core("hardneg", "recipe", "run", recipe, "--output", tmp_path / "out", "--device", "cpu")
    assert "STAR" in json.dumps(json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps", "-w", folder)
    subprocess.run([*pip, *(ROOT / "plugins" / name for name in PACKAGES)], check=True)
    return folder


@pytest.fixture
def package(request: pytest.FixtureRequest, core: Callable[..., str], wheels: Path, tmp_path: Path) -> Iterator[str]:
    """The name of one package, which is on the environment's path for the test."""
    [wheel] = wheels.glob(f"{request.param.replace('-', '_')}-*.whl")
    ZipFile(wheel).extractall(tmp_path / "site")
    site = core("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (path := Path(site, "package.pth")).write_text(f"{tmp_path / 'site'}\n")
    yield request.param
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, indirect=True)
def test_a_package_passes_its_tests_alone(package: str, core: Callable[..., str], tmp_path: Path) -> None:
    listing = "from hardneg.registry.plugins import list_plugins as l; print({p.package for p in l()} - {'hardneg'})"
    assert core("python", "-c", listing).strip() in (f"{{'{package}'}}", "set()")
    tests, options = ROOT / "plugins" / package / "tests", ("-q", "-x", "-p", "no:cacheprovider", "-m", "not slow")
    assert " passed" in core("python", "-m", "pytest", *options, "--basetemp", tmp_path / "work", tests)
