import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


def digest(folder: Path) -> str:
    return resolve(ModelSpec(str(folder))).digest


def test_one_weight_changed_gives_another_digest(tiny_model: Path, folder: Path):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.weight"][3] += 1e-3
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert (folder / "model.safetensors").stat().st_size == (tiny_model / "model.safetensors").stat().st_size
    assert digest(folder) != digest(tiny_model)


def test_place_dates_and_readme_do_not_count(tiny_model: Path, folder: Path):
    (folder / "README.md").write_text("another")
    os.utime(folder / "model.safetensors", (1, 1))
    assert digest(folder) == digest(tiny_model)


def test_library_versions_do_not_count(tiny_model: Path, folder: Path):
    config = json.loads((folder / "config.json").read_text())
    config |= {"transformers_version": "9.9", "_name_or_path": "/elsewhere"}
    (folder / "config.json").write_text(json.dumps(config))
    assert digest(folder) == digest(tiny_model)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "hidden_act", "relu"),
        ("tokenizer_config.json", "padding_side", "left"),
        ("1_Pooling/config.json", "pooling_mode_cls_token", True),
    ],
)
def test_configuration_counts(tiny_model: Path, folder: Path, file: str, key: str, value: object):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | {key: value}))
    assert digest(folder) != digest(tiny_model)


def test_tokenizer_counts_but_its_last_call_does_not(tiny_model: Path, folder: Path):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"truncation": {"max_length": 7}}))
    assert digest(folder) == digest(tiny_model)
    content["model"]["vocab"]["zz"], content["model"]["vocab"]["zy"] = 1, 2
    path.write_text(json.dumps(content))
    assert digest(folder) != digest(tiny_model)


@pytest.mark.parametrize("part", ["truncation", "padding"])
def test_the_side_that_a_tokenizer_has_from_its_last_call_counts(tiny_model: Path, folder: Path, part: str):
    path = folder / "tokenizer.json"
    call = {"direction": "Left", "strategy": "LongestFirst", "max_length": 9, "stride": 0}
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: call}))
    assert digest(folder) != digest(tiny_model)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {f"{part}_side": "right"}))
    said = digest(folder)
    path.write_bytes((tiny_model / "tokenizer.json").read_bytes())
    assert digest(folder) == said


def test_all_files_of_a_tokenizer_count(tiny_model: Path, folder: Path):
    (folder / "bpe.codes").write_text("a b 3")
    assert digest(folder) != digest(tiny_model)


@pytest.mark.parametrize(
    "change",
    [
        {"query_length": 32},
        {"document_length": 128},
        {"query_prompt": "query: "},
        {"document_prompt": "passage: "},
        {"pooling": "cls"},
        {"projection": 8},
        {"layer_norm": True},
        {"similarity": "dot"},
    ],
)
def test_every_option_counts(tiny_model: Path, change: dict[str, object]):
    spec = ModelSpec(str(tiny_model))
    assert resolve(replace(spec, **change)).digest != resolve(spec).digest  # type: ignore[arg-type]


def test_revision_of_a_folder_does_not_count(tiny_model: Path):
    assert resolve(ModelSpec(str(tiny_model), revision="v2")).digest == digest(tiny_model)


def test_saving_twice_gives_one_digest_whatever_was_encoded_before(tiny_model: Path, tmp_path: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    encoder.encode(["a query"], "query")
    encoder.save(tmp_path / "one")
    encoder.features(["a document", "and another one"], "document")
    encoder.save(tmp_path / "two")
    assert resolve(load_learner(tmp_path / "one", "cpu").spec).digest == digest(tmp_path / "two")


def test_a_full_commit_needs_no_hub():
    commit = "0123456789abcdef0123456789abcdef01234567"
    first = resolve(ModelSpec("some/model", revision=commit)).digest
    assert first == resolve(ModelSpec("some/model", revision=commit)).digest
    assert first != resolve(ModelSpec("some/model", revision=commit[::-1])).digest


def test_a_cached_hub_model_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--some--model"
    for path, text in ((f"snapshots/{commit}/config.json", "{}"), ("refs/main", commit)):
        (place / path).parent.mkdir(parents=True)
        (place / path).write_text(text)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert resolve(ModelSpec("some/model")).digest == resolve(ModelSpec("some/model", revision=commit)).digest


def test_a_hub_model_that_is_nowhere_says_what_to_do():
    with pytest.raises(ModelError, match=r"'no/such-model-here': neither a folder nor .* go online"):
        _ = resolve(ModelSpec("no/such-model-here")).digest
