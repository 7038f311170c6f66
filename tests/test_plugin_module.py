"""`hardneg.plugin`: all that an outside package may import, and the only module that the packages in plugins/ do."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hardneg import plugin

ROOT = Path(__file__).parents[1]


def imported(path: Path) -> set[str]:
    """The modules of hardneg that a file imports."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    return {name for name in named if name.partition(".")[0] == "hardneg"}


def test_packages_of_plugins_import_this_module_alone() -> None:
    files = [*ROOT.glob("plugins/*/src/**/*.py")]
    assert len(files) > 40
    allowed = {"hardneg.plugin", "hardneg.testing"}
    assert {str(path): found for path in files if (found := imported(path) - allowed)} == {}


def test_templates_of_new_packages_import_this_module_alone() -> None:
    files = [*ROOT.glob("hardneg/cli/templates/*.py.template")]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if " hardneg." in line]
    imports = [line.split()[1] for line in lines if line.split()[0] in ("from", "import")]
    assert len(imports) > 20
    assert {name for name in imports if not name.startswith(("hardneg.plugin", "hardneg.testing"))} == set()


@pytest.mark.parametrize("name", plugin.__all__)
def test_each_name_is_where_its_import_says(name: str) -> None:
    assert getattr(plugin, name) is not None


def test_the_list_is_that_of_the_imports() -> None:
    assert sorted(plugin.__all__) == sorted(plugin._homes()) and len({*plugin.__all__}) == len(plugin.__all__)
    assert {*plugin.__all__} <= {*dir(plugin)}


def test_a_name_that_is_not_listed_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StoredNothing'"):
        plugin.StoredNothing  # noqa: B018


def test_its_import_is_light() -> None:
    told = "import sys, hardneg.plugin; print(*(name for name in sys.modules if name.startswith('hardneg.')))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hardneg.plugin"]
