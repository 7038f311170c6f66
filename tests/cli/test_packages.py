"""Commands and functions of packages that are not installed."""

from importlib.metadata import EntryPoints

import pytest
from command_line import call

import hardneg
from hardneg import registry
from hardneg.cli import adaptor
from hardneg.records import MissingDependency
from hardneg.registry import OUTSIDE


@pytest.mark.parametrize("name", ["browse", "bench", "data fetch", "recipe verify"])
def test_a_command_says_which_package_to_install(name, monkeypatch):
    package = OUTSIDE["apps", name]
    group, _, last = name.rpartition(" ")
    assert f" {last} " in call(f"{group} --help").stdout
    monkeypatch.setattr(adaptor, "entry_points", lambda kind: EntryPoints(()))
    monkeypatch.setattr(registry, "entry_points", lambda kind: EntryPoints(()))
    for words in ("FOLDER --export page.html", "--help"):
        told = call(f"{name} {words}").exception
        assert isinstance(told, MissingDependency)
        wanted = f"in package {package}, which is not installed: pip install ./plugins/{package}, from a checkout"
        assert str(told) == f"the command {name!r} is {wanted} of hardneg"
    assert "Of installed packages" not in call(f"{group} --help").stdout


def test_a_mistyped_command_is_told_with_its_like_of_packages_too():
    for typed, meant in (("recomend", "recommend"), ("serach", "search")):
        assert f"No such command '{typed}'. Did you mean '{meant}'?" in call(typed).stderr


def test_a_function_says_which_package_to_install(monkeypatch):
    monkeypatch.setitem(hardneg._APART, "browse", "hardneg-not-there")
    with pytest.raises(MissingDependency, match=r"browse: pip install ./plugins/hardneg-not-there, from a checkout"):
        hardneg.browse  # noqa: B018
    assert "browse" not in dir(hardneg) and "mine" in dir(hardneg)
