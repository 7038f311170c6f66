"""`import hardneg` is light, and gives each public name when it is asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import hardneg


def imported_by(program: str) -> set[str]:
    """The modules that a program has imported beside those that an interpreter has at its start."""
    told = f"import sys; before = set(sys.modules)\n{program}\nfound = set(sys.modules) - before\nprint(*found)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_imports_nothing_but_the_lightest() -> None:
    found = imported_by("import hardneg; dir(hardneg)")
    assert {name for name in found if name.startswith("hardneg")} == {"hardneg"}
    assert {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) == {"hardneg"}
    assert len(found) < 50


def test_each_public_name_is_where_the_table_says() -> None:
    for name, module in {**hardneg._PUBLIC, **hardneg._CALLED}.items():
        assert hasattr(import_module(module), name), name
        assert name in dir(hardneg)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(hardneg.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    named = {alias.asname for each in tree.body if isinstance(each, ast.ImportFrom) for alias in each.names}
    functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    assert (named | functions) - {None} == {*hardneg._PUBLIC, *hardneg._CALLED}


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'mines'"):
        hardneg.mines  # noqa: B018


def test_short_paths_lead_to_their_doors() -> None:
    from hardneg.doors.trainer.adore_loss import AdoreLoss
    from hardneg.doors.trainer.refreshed import RefreshedNegatives
    from hardneg.trainer import AdoreLoss as Loss
    from hardneg.trainer import RefreshedNegatives as Negatives

    assert (Loss, Negatives) == (AdoreLoss, RefreshedNegatives)
    done = subprocess.run([sys.executable, "-m", "hardneg.pyserini", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "hardneg pyserini" in done.stdout
