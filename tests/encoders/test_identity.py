import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError

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
