import importlib.metadata
import sys
import tomllib
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest
from environments import ROOT

from hardneg import registry
from hardneg.records import PluginError, PluginSetting
from hardneg.registry import configure, list_plugins, load_plugin, plugin_options
from hardneg.store import plugin_identity

MINER = '''
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Mine:
    """Mines.

    Args:
        depth: how deep to look
            into the list.
    """

    version: ClassVar[int] = 3
    depth: int = 7
'''


def install(folder: Path, package: str, entries: str, source: str = MINER, module: str = "") -> None:
    module = module or package
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_built_ins_come_in_by_entry_points():
    names = {(plugin.kind, plugin.name) for plugin in list_plugins() if plugin.package == "hardneg"}
    assert {("miners", "topk"), ("losses", "star"), ("indexes", "bm25"), ("datasets", "pydocs")} <= names
    assert not [plugin for plugin in list_plugins() if plugin.package == "hardneg" and plugin.problem]


def test_another_package_adds_a_miner(site):
    install(site, "shining", "[hardneg.miners]\nshining = shining:Mine\n")
    assert load_plugin("miners", "shining").version == 3
    made = configure("miners", PluginSetting("shining", {"depth": "9"}))
    assert made.depth == 9
    assert plugin_identity("shining", made) == {"name": "shining", "version": 3, "options": {"depth": 9}}
    assert plugin_options(type(made)) == [
        {"name": "depth", "type": "int", "default": "7", "meaning": "how deep to look into the list."}
    ]


def test_entry_points_are_read_once(monkeypatch):
    registry._points.clear()
    read, calls = importlib.metadata.entry_points, []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda: calls.append(1) or read())
    assert list_plugins() and load_plugin("miners", "topk") and len(calls) == 1


def test_a_name_claimed_twice_names_both(site):
    install(site, "one_pack", "[hardneg.miners]\nshared = one_pack:Mine\n")
    install(site, "two_pack", "[hardneg.miners]\nshared = two_pack:Mine\n")
    with pytest.raises(PluginError, match="provided by one_pack and two_pack"):
        load_plugin("miners", "shared")
    assert all("one_pack and two_pack" in item.problem for item in list_plugins("miners") if item.name == "shared")


def test_what_is_no_dataclass_is_refused(site):
    install(site, "undeclared", "[hardneg.miners]\nundeclared = undeclared:Mine\n", "class Mine: pass\n")
    with pytest.raises(PluginError, match="must be a dataclass with `version"):
        load_plugin("miners", "undeclared")


def test_a_plugin_of_a_package_beside_hardneg_is_told_with_its_package(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints)
    monkeypatch.setitem(sys.modules, "hardneg_sparse", None)
    monkeypatch.setitem(sys.modules, "hardneg_ray", None)
    told = r"in package {0}, which is not installed; run pip install \./plugins/{0} in a checkout"
    for kind, name in (("rerankers", "electra"), ("analyses", "drift"), ("regularizer", "flops"), ("engine", "ray")):
        with pytest.raises(PluginError, match=f"'{name}' is {told.format(registry.OUTSIDE[kind, name])}"):
            load_plugin(kind, name)


def test_a_plugin_of_a_package_of_the_checkout_is_told_with_its_package() -> None:
    for path in ROOT.glob("plugins/*/pyproject.toml"):
        for group, points in tomllib.loads(path.read_text())["project"].get("entry-points", {}).items():
            if not group.endswith((".recipes", ".faster")) and path.parent.name != "hardneg-example":
                kind = group.removeprefix("hardneg.")
                assert {registry.OUTSIDE.get((kind, name)) for name in points} == {path.parent.name}


def test_all_wrong_options_at_once():
    with pytest.raises(PluginError) as caught:
        configure("miners", PluginSetting("topk", {"dept": 3, "depth": "many"}))
    assert "dept: topk has no such option; did you mean 'depth'" in str(caught.value)
    assert "depth: must be a whole number (got " in str(caught.value)
