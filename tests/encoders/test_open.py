"""Models resolved by name: their family, looked for once, and their digest."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from recipes.recipes import recipe_in, small_tree
from safetensors.torch import load_file, save_file
from tiny import BY_FAMILY, tiny_encoder, tiny_model2vec, tiny_static

from hardneg import registry
from hardneg.encoders.families import Dense, Static
from hardneg.encoders.open import contract, model_files
from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
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
    assert looked == [str(folder)] and len(read) == (name not in ("static", "model2vec"))
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
    assert caplog.text.count("'broken' of a package cannot be imported (x); ignored when detecting families") == 1


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
    assert model.location.folder is None and model.known is None and model.known_family is None
    assert model.dimension is None and model.family == Dense() and model.shape.hidden == 768 and model.remarks == []
    for ask in (lambda: model.full, lambda: model.contract, lambda: model.digest, model.look_up):
        with pytest.raises(ModelError, match="no such folder; give a folder, a hub id or packaged:"):
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


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


def digest(folder: Path) -> str:
    return resolve(ModelSpec(str(folder))).digest


def changed(name: str, **values: Any) -> Callable[[Path], None]:
    """Writes other values into a JSON file of a folder."""
    return lambda folder: (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | values))  # type: ignore[func-returns-value]


def another_weight(folder: Path) -> None:
    weights, size = load_file(folder / "model.safetensors"), (folder / "model.safetensors").stat().st_size
    weights["embeddings.LayerNorm.weight"][3] += 1e-3
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert (folder / "model.safetensors").stat().st_size == size


def other_words(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"] |= {"zz": 1, "zy": 2}
    (folder / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (another_weight, True),
        (other_words, True),
        (lambda folder: (folder / "bpe.codes").write_text("a b 3"), True),
        (changed("config.json", hidden_act="relu"), True),
        (changed("tokenizer_config.json", padding_side="left"), True),
        (changed("1_Pooling/config.json", pooling_mode_cls_token=True), True),
        (changed("tokenizer.json", truncation={"max_length": 7}), False),
        (changed("config.json", transformers_version="9.9", _name_or_path="/elsewhere"), False),
        (lambda folder: (folder / "README.md").write_text("another"), False),
        (lambda folder: os.utime(folder / "model.safetensors", (1, 1)), False),
    ],
)
def test_files_that_count_and_what_of_them_does_not(tiny_model: Path, folder: Path, change: Any, counts: bool):
    change(folder)
    assert (digest(folder) != digest(tiny_model)) is counts


@pytest.mark.parametrize("part", ["truncation", "padding"])
def test_the_side_that_a_tokenizer_has_from_its_last_call_counts(tiny_model: Path, folder: Path, part: str):
    call = {"direction": "Left", "strategy": "LongestFirst", "max_length": 9, "stride": 0}
    changed("tokenizer.json", **{part: call})(folder)
    assert digest(folder) != digest(tiny_model)
    changed("tokenizer_config.json", **{f"{part}_side": "right"})(folder)
    said = digest(folder)
    (folder / "tokenizer.json").write_bytes((tiny_model / "tokenizer.json").read_bytes())
    assert digest(folder) == said


def test_every_option_counts_but_the_revision_of_a_folder(tiny_model: Path):
    options: dict[str, Any] = {"query_length": 32, "document_length": 128, "query_prompt": "query: ", "pooling": "cls"}
    options |= {"document_prompt": "passage: ", "projection": 8, "layer_norm": True, "similarity": "dot", "twins": True}
    spec = ModelSpec(str(tiny_model), projection=4)
    changes = [*({name: value} for name, value in options.items()), {"activation": "tanh"}, {"query_token_type": 1}]
    found = {resolve(replace(spec, **change)).digest for change in ({}, *changes)}  # type: ignore[arg-type]
    assert len(found) == 1 + len(changes)
    assert resolve(ModelSpec(str(tiny_model), revision="v2")).digest == digest(tiny_model)


def test_saving_twice_gives_one_digest_whatever_was_encoded_before(tiny_model: Path, tmp_path: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    encoder.encode(["a query"], "query")
    encoder.save(tmp_path / "one")
    encoder.features(["a document", "and another one"], "document")
    encoder.save(tmp_path / "two")
    assert resolve(load_learner(tmp_path / "one", "cpu").spec).digest == digest(tmp_path / "two")


def test_a_cached_hub_model_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / "models--some--model"
    for path, text in ((f"snapshots/{COMMIT}/config.json", "{}"), ("refs/main", COMMIT)):
        (place / path).parent.mkdir(parents=True)
        (place / path).write_text(text)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert resolve(ModelSpec("some/model")).digest == resolve(ModelSpec("some/model", revision=COMMIT)).digest
    assert resolve(ModelSpec("some/model")).digest != resolve(ModelSpec("some/model", revision=COMMIT[::-1])).digest


def test_a_hub_model_that_is_nowhere_says_what_to_do():
    with pytest.raises(ModelError, match=r"'no/such-model-here': neither a folder nor .* go online"):
        _ = resolve(ModelSpec("no/such-model-here")).digest
