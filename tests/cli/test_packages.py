"""Commands and functions of packages that are not installed."""

import pytest
from command_line import call

import hardneg
from hardneg.cli import packages
from hardneg.records.errors import MissingDependency


@pytest.mark.parametrize("name", packages.OWN)
def test_a_command_says_which_package_to_install(name, monkeypatch):
    monkeypatch.setattr(packages, "_points", dict)
    for words in ("FOLDER --export page.html", "--help"):
        told = call(f"{name} {words}").exception
        assert isinstance(told, MissingDependency)
        assert str(told) == f"{name}: pip install ./plugins/{packages.OWN[name][0]}, from a checkout of hardneg"
    line = packages.OWN[name][1].partition(" ")[0]
    group, _, last = name.rpartition(" ")
    told = call(f"{group} --help").stdout
    assert f"{last} " in told and line in told


def test_a_mistyped_command_is_told_with_its_like_of_packages_too():
    for typed, meant in (("recomend", "recommend"), ("serach", "search")):
        assert f"No such command '{typed}'. Did you mean '{meant}'?" in call(typed).stderr


def test_a_function_says_which_package_to_install(monkeypatch):
    monkeypatch.setitem(hardneg._APART, "browse", "hardneg-not-there")
    with pytest.raises(MissingDependency, match=r"browse: pip install ./plugins/hardneg-not-there, from a checkout"):
        hardneg.browse  # noqa: B018
    assert "browse" not in dir(hardneg) and "mine" in dir(hardneg)
