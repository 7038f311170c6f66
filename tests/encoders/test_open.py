"""A model is resolved once: one look for its files, one reading of what they say, and each family asked for its own."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from recipes.recipes import recipe_in, small_tree
from tiny import BY_FAMILY, tiny_encoder, tiny_model2vec, tiny_static

from hardneg import registry
from hardneg.encoders.families import Dense, Static
from hardneg.encoders.open import contract, model_files
from hardneg.encoders.open.resolved import load_encoder, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.recipes import make_plan
from hardneg.records import ModelError, PluginError, PluginSetting
from hardneg.registry import load_plugin

MAKERS = {
    "dense": (tiny_encoder, Dense),
    "static": (tiny_static, Static),
    "model2vec": (tiny_model2vec, Static),
    **{name: (BY_FAMILY[name], load_plugin("encoders", name)) for name in BY_FAMILY if name not in ("dense", "static")},
}


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str, users: list[object]) -> list[object]:
    """What a function is called with from now on."""
    calls, function = [], getattr(module, name)

    def called(first: object, *rest: object) -> object:
        calls.append(first)
        return function(first, *rest)

    for user in users:
        monkeypatch.setattr(user, name, called)
    return calls


@pytest.mark.parametrize("name", MAKERS)
def test_opening_a_model_looks_for_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = MAKERS[name][0](tmp_path / "model")
    looked = counted(monkeypatch, model_files, "locate", [model_files])
    read = counted(monkeypatch, contract, "read_contract", [contract])
    load_encoder(ModelSpec(str(folder)), "cpu", "fp32")
    assert looked == [str(folder)] and read == [folder] * (name not in ("static", "model2vec"))
    model = resolve(str(folder))
    assert model.full == model.known and model.digest and model.shape and model.look_up().there
    assert looked == [str(folder)] * 2


def test_a_recipe_resolves_each_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_encoder(tmp_path / "model")
    tree = small_tree(tmp_path / "data", folder)
    tree["stages"]["other"] = {"stage": "model", "model": str(tiny_static(tmp_path / "other"))}
    looked = counted(monkeypatch, model_files, "locate", [model_files])
    recipe = recipe_in(tmp_path, tree)
    make_plan(recipe, [])
    assert looked == [str(folder), str(tmp_path / "other")]
    assert recipe.models.of(recipe.model).digest == resolve(recipe.model).digest


@pytest.mark.parametrize("name", MAKERS)
def test_families_claim_their_folders(tmp_path: Path, name: str) -> None:
    make, family = MAKERS[name]
    folder = make(tmp_path / "model")
    assert resolve(str(folder)).family == family()
    claims = [each for each in {family for _, family in MAKERS.values()} - {Dense} if each.claims(folder)]
    assert claims == [family] * (name != "dense")


@dataclass(frozen=True)
class Marked(Dense):
    """A family of another package, whose folders have a file of their own."""

    called: ClassVar[str] = "marked"
    special: ClassVar[int] = 1

    @classmethod
    def claims(cls, folder: Path) -> bool:
        return (folder / "marked.json").is_file()


def test_another_package_claims_its_folders_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_static(tmp_path / "model")
    (folder / "marked.json").write_text("{}")
    installed(monkeypatch, marked=Marked)
    assert resolve(str(folder)).family == Marked()
    (folder / "marked.json").unlink()
    assert resolve(str(folder)).family == Static()


def test_a_family_that_cannot_be_imported_is_told_and_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installed(monkeypatch, broken=PluginError("the encoders plugin 'broken' of a package cannot be imported (x)"))
    with caplog.at_level(logging.WARNING):
        for name in ("model", "other"):  # said once
            assert resolve(str(tiny_static(tmp_path / name))).family == Static()
    assert caplog.text.count("'broken' of a package cannot be imported (x); it claims no model's folder") == 1


def installed(monkeypatch: pytest.MonkeyPatch, **families: type | PluginError) -> None:
    """Families that are installed beside those of hardneg."""
    names, load = registry.plugin_names, registry.load_plugin

    def loaded(kind: str, name: str) -> type:
        found = families.get(name) or load(kind, name)
        if isinstance(found, PluginError):
            raise found
        return found

    monkeypatch.setattr(registry, "plugin_names", lambda kind: sorted([*names(kind), *families]))
    monkeypatch.setattr(registry, "load_plugin", loaded)


def test_what_is_not_here_is_no_error_until_it_is_asked_for(tmp_path: Path) -> None:
    model = resolve(ModelSpec(str(tmp_path / "none")))
    assert model.folder is None and model.known is None and model.known_family is None and model.dimension is None
    assert model.family == Dense() and model.shape.hidden == 768 and model.remarks == []
    for ask in (lambda: model.full, lambda: model.contract, lambda: model.digest, model.look_up):
        with pytest.raises(ModelError, match="no such folder: give a folder, a hub id or packaged:"):
            ask()
    with pytest.raises(ModelError, match="no such folder"):
        resolve(str(tmp_path / "none"), fetch=True)


def test_what_a_spec_says_of_its_family_wins(tmp_path: Path) -> None:
    folder = tiny_static(tmp_path / "model")
    assert resolve(str(folder)).family == Static()
    named = resolve(ModelSpec(str(folder), encoder=PluginSetting("dense")))
    assert named.family == Dense()
    with pytest.raises(ModelError, match="a static model, not a dense encoder"):
        _ = named.full
