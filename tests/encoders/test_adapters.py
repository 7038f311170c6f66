"""Adapters: put in, trained, merged, saved apart, named by content."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.records import ModelError
from tests.tiny import tiny_encoder

TEXTS = ["hello world", "a", "the quick brown fox jumps over the lazy dog", ""]

TYPES = ("lora", "rslora", "dora")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "base")


def trained(base: Path, adapter: AdapterSpec) -> Encoder:
    """An encoder whose adapter is another than at the beginning."""
    encoder = load_learner(ModelSpec(str(base), adapter=adapter), "cpu")
    torch.manual_seed(1)
    for weights in encoder.module.parameters():
        if weights.requires_grad:
            torch.nn.init.normal_(weights, std=0.3)
    return encoder


def closeness(one: np.ndarray, other: np.ndarray) -> float:
    """The lowest cosine between rows."""
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / norms).min())


def as_opened_by_others(folder: Path) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    found: np.ndarray = SentenceTransformer(str(folder), device="cpu").encode_query(TEXTS)
    return found


@pytest.mark.parametrize("kind", TYPES)
def test_new_adapter_changes_nothing_and_alone_learns(base: Path, kind: str) -> None:
    plain = load_learner(ModelSpec(str(base)), "cpu")
    encoder = load_learner(ModelSpec(str(base), adapter=AdapterSpec(type=kind, rank=4)), "cpu")  # type: ignore[arg-type]
    assert np.allclose(plain.encode(TEXTS, "query"), encoder.encode(TEXTS, "query"), atol=1e-6)
    learning = [name for name, weights in encoder.module.named_parameters() if weights.requires_grad]
    assert learning and all(".default" in name for name in learning)
    assert not any("pooler" in name or "embeddings" in name for name in learning)


def test_lora_is_the_product_of_two_matrices_scaled_by_alpha_over_rank(base: Path) -> None:
    encoder = trained(base, AdapterSpec(rank=2, alpha=6, target_modules=("attention.self.query",)))
    layer = encoder.parts("query")[0].model.encoder.layer[0].attention.self.query
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    x = torch.randn(3, 32)
    expected = x @ layer.base_layer.weight.T + layer.base_layer.bias + 6 / 2 * (x @ a.T @ b.T)
    assert torch.allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "save"),
    [(kind, save) for kind in TYPES for save in ("merged", "apart") if (kind, save) != ("dora", "apart")],
)
def test_saved_model_opens_everywhere_with_the_same_vectors(base: Path, tmp_path: Path, kind: str, save: str) -> None:
    encoder = trained(base, AdapterSpec(type=kind, rank=4, save=save))  # type: ignore[arg-type]
    before = encoder.encode(TEXTS, "query")
    plain = load_learner(ModelSpec(str(base)), "cpu").encode(TEXTS, "query")
    assert closeness(before, plain) < 0.9999
    encoder.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "model.safetensors").exists() == (save == "merged")
    assert np.array_equal(before, encoder.encode(TEXTS, "query"))  # saving leaves what is trained as it was
    assert closeness(before, as_opened_by_others(tmp_path / "saved")) > 0.99999
    assert closeness(before, load_encoder(tmp_path / "saved", "cpu").encode(TEXTS, "query")) > 0.99999
    assert closeness(before, load_encoder(tmp_path / "saved", "cpu", "fp32").encode(TEXTS, "query")) > 0.99999


def test_merged_model_is_trained_on_with_a_new_adapter_of_the_same_settings(base: Path, tmp_path: Path) -> None:
    trained(base, AdapterSpec(rank=4, alpha=8)).save(tmp_path / "one")
    again = load_encoder(tmp_path / "one", "cpu")
    assert again.spec.adapter == AdapterSpec(rank=4, alpha=8)
    assert all(".default" in name for name, weights in again.module.named_parameters() if weights.requires_grad)
    used = load_encoder(tmp_path / "one", "cpu", "fp32")  # to encode: as a plain model
    assert all(".default" not in name for name, _ in used.module.named_parameters())


def test_adapter_saved_apart_is_trained_on(base: Path, tmp_path: Path) -> None:
    one = trained(base, AdapterSpec(rank=4, save="apart"))
    one.save(tmp_path / "one")
    again = load_encoder(tmp_path / "one", "cpu")
    assert again.spec.adapter is not None and again.spec.adapter.rank == 4 and again.spec.adapter.save == "apart"
    learning = {name: weights for name, weights in again.module.named_parameters() if weights.requires_grad}
    before = dict(one.module.named_parameters())
    assert learning and all(torch.equal(weights, before[name]) for name, weights in learning.items())
    for weights in learning.values():
        torch.nn.init.normal_(weights, std=0.3)
    again.save(tmp_path / "two")
    assert closeness(again.encode(TEXTS, "query"), as_opened_by_others(tmp_path / "two")) > 0.99999
    third = load_learner(again.spec, "cpu")  # as the start weights are loaded again where negatives are refreshed
    assert closeness(third.encode(TEXTS, "query"), one.encode(TEXTS, "query")) > 0.99999


def apart(base: Path, folder: Path) -> tuple[Path, np.ndarray]:
    """An adapter in a folder of its own, as peft saves one, and the vectors with it."""
    encoder = trained(base, AdapterSpec(rank=4, save="apart"))
    encoder.parts("query")[0].model.save_pretrained(folder)
    return folder, encoder.encode(TEXTS, "query")


def test_trained_adapter_beside_its_base_or_alone(base: Path, tmp_path: Path) -> None:
    folder, vectors = apart(base, tmp_path / "adapter")
    beside, alone = ModelSpec(str(base), adapter=AdapterSpec(str(folder))), ModelSpec(str(folder))
    for spec, precision in ((beside, None), (beside, "fp32"), (alone, None)):
        found = load_learner(spec, "cpu", precision)  # type: ignore[arg-type]
        assert closeness(found.encode(TEXTS, "query"), vectors) > 0.99999
    assert found.spec.name == str(base.resolve()) and found.spec.query_length == 256
    assert resolve(alone).digest == resolve(beside).digest
    found.save(tmp_path / "merged")
    assert closeness(as_opened_by_others(tmp_path / "merged"), vectors) > 0.99999
    assert load_encoder(tmp_path / "merged", "cpu").spec.adapter.rank == 4  # type: ignore[union-attr]


def test_adapter_whose_base_is_gone(base: Path, tmp_path: Path) -> None:
    folder, _ = apart(base, tmp_path / "adapter")
    config = (folder / "adapter_config.json").read_text()
    (folder / "adapter_config.json").write_text(config.replace(str(base.resolve()), "/nowhere/base"))
    with pytest.raises(ModelError, match="'/nowhere/base'"):
        load_learner(ModelSpec(str(folder)), "cpu")
    found = load_learner(ModelSpec(str(base), adapter=AdapterSpec(str(folder))), "cpu")
    assert found.dimension == 32


def test_digest_is_of_base_and_adapter(base: Path, tmp_path: Path) -> None:
    folder, _ = apart(base, tmp_path / "adapter")
    plain = ModelSpec(str(base))
    specs = [
        plain,
        *(replace(plain, adapter=AdapterSpec(**options)) for options in ({}, {"rank": 8}, {"save": "apart"})),
        replace(plain, adapter=AdapterSpec(str(folder))),
    ]
    assert len({resolve(spec).digest for spec in specs}) == len(specs)
    moved = tmp_path / "moved"
    folder.rename(moved)
    config = moved / "adapter_config.json"
    named = resolve(replace(plain, adapter=AdapterSpec(str(moved)))).digest
    config.write_text(config.read_text().replace(str(base.resolve()), "elsewhere"))
    assert named == resolve(replace(plain, adapter=AdapterSpec(str(moved)))).digest
    weights = moved / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    assert named != resolve(replace(plain, adapter=AdapterSpec(str(moved)))).digest


def test_adapter_of_another_model(base: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder, _ = apart(base, tmp_path / "adapter")
    weights = load_file(str(folder / "adapter_model.safetensors"))
    name = next(iter(weights))
    for broken in (
        {**weights, "other.lora_A.weight": weights[name].clone()},
        {n: w for n, w in weights.items() if n != name},
    ):
        save_file(broken, str(folder / "adapter_model.safetensors"))
        with pytest.raises(ModelError, match="does not fit its base"):
            load_learner(ModelSpec(str(base), adapter=AdapterSpec(str(folder))), "cpu")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "type PREFIX_TUNING is not supported"),
        ({"peft_type": "LORA", "megatron_config": {"a": 1}}, "megatron_config"),
        ({"peft_type": "LORA", "modules_to_save": ["pooler"]}, "modules_to_save"),
        ([], "not a JSON object"),
    ],
)
def test_adapters_that_are_not_known(base: Path, tmp_path: Path, content: object, said: str) -> None:
    folder, _ = apart(base, tmp_path / "adapter")
    (folder / "adapter_config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(base), adapter=AdapterSpec(str(folder))), "cpu")


def test_all_problems_of_an_adapter_at_once() -> None:
    found = ModelSpec("m", adapter=AdapterSpec(type="dora", rank=0, alpha=0, dropout=1, save="apart")).problems()
    assert [line.split(" is ")[0] for line in found] == [f"adapter.{x}" for x in ("rank", "alpha", "dropout", "save")]
    assert AdapterSpec("folder", rank=4).problems() == [
        "adapter.rank: a trained adapter has its own settings; omit these, or omit source"
    ]
    assert AdapterSpec(target_modules=()).problems()


def test_layers_that_are_not_there(base: Path) -> None:
    with pytest.raises(ModelError, match="cannot be added to"):
        load_learner(ModelSpec(str(base), adapter=AdapterSpec(target_modules=("nothing",))), "cpu")


def test_weights_that_learn_are_estimated() -> None:
    encoder = load_learner(ModelSpec("packaged:all-MiniLM-L6-v2", adapter=AdapterSpec(rank=16)), "cpu")
    learning = sum(weights.numel() for weights in encoder.module.parameters() if weights.requires_grad)
    assert AdapterSpec(rank=16).weights(384, 6) == learning == 18 * 384 * 16 * 6


def test_bytes_of_an_adapter_and_its_base_are_looked_up(base: Path, tmp_path: Path) -> None:
    folder, _ = apart(base, tmp_path / "adapter")
    weights = (folder / "adapter_model.safetensors").stat().st_size
    plain = resolve(ModelSpec(str(base))).look_up().there
    assert resolve(ModelSpec(str(base), adapter=AdapterSpec(str(folder)))).look_up().there == plain + weights
    assert resolve(ModelSpec(str(folder))).look_up().there == plain + weights
    assert resolve(ModelSpec(str(base), adapter=AdapterSpec())).look_up().there == plain
    with pytest.raises(ModelError, match="adapter: model '/nowhere'"):
        resolve(ModelSpec(str(base), adapter=AdapterSpec("/nowhere"))).look_up()


def test_both_encoders_of_twins_have_an_adapter(base: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = ModelSpec(str(base), twins=True, adapter=AdapterSpec(rank=2))
    encoder = load_learner(spec, "cpu")
    learning = [weights for weights in encoder.module.parameters() if weights.requires_grad]
    assert len(learning) == 2 * 2 * 6 * 2  # sides, layers, linear layers, matrices
    for weights in learning:
        torch.nn.init.normal_(weights, std=0.3)
    encoder.save(tmp_path / "saved")
    opened = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert closeness(encoder.encode(TEXTS, "query"), opened.encode_query(TEXTS)) > 0.99999
    assert closeness(encoder.encode(TEXTS, "document"), opened.encode_document(TEXTS)) > 0.99999
    with pytest.raises(ModelError, match="set save: merged"):
        load_learner(replace(spec, adapter=AdapterSpec(save="apart")), "cpu")
