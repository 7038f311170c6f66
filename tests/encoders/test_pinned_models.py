"""Models' keys and what is read of their folders without opening them, pinned: they must not change.

`python -m tests.encoders.test_pinned_models` writes the file of pins again.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import sentence_transformers
import transformers

from hardneg.encoders.open.resolved import resolve
from hardneg.encoders.spec import AdapterSpec, ModelSpec, PromptName
from hardneg.records import SPEC_FILE, ModelError, PluginSetting
from hardneg.registry import plugin_names
from tests.encoders.test_hub_folders import _FAST, PUBLISHED
from tests.tiny import tiny_encoder, tiny_masked_lm, tiny_model2vec, tiny_multi_vector, tiny_sparse_encoder, tiny_static

PINS = Path(__file__).with_name("pinned_models.json")
VERSIONS = {"transformers": transformers.__version__, "sentence-transformers": sentence_transformers.__version__}
"""Libraries whose folders differ by their version, and so the digests of these."""


def edited(folder: Path, name: str, **values: Any) -> Path:
    """The folder with other values in a JSON file."""
    path = folder / name
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | values), encoding="utf-8")
    return folder


def routed(folder: Path) -> Path:
    """A model with separate encoders of queries and documents."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router, Transformer

    bare = str(tiny_encoder(folder / "bare", kind="transformers"))
    sides = ([Transformer(bare, max_seq_length=length), Pooling(32)] for length in (24, 48))
    SentenceTransformer(modules=[Router.for_query_document(*sides)], device="cpu").save(str(folder / "model"))
    return folder / "model"


def adapted(folder: Path) -> Path:
    """An adapter apart from its base, as peft saves it."""
    import peft
    from transformers import AutoModel

    base = tiny_encoder(folder / "base")
    model = AutoModel.from_pretrained(str(base))
    peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["query", "value"])).save_pretrained(
        str(folder / "adapter")
    )
    return folder / "adapter"


def stanford(folder: Path) -> Path:
    """A folder of Stanford's ColBERT."""
    edited(tiny_encoder(folder, kind="transformers"), "config.json", architectures=["HF_ColBERT"])
    return edited(folder, "artifact.metadata", query_maxlen=20, doc_maxlen=60)


def pylate(folder: Path) -> Path:
    """A folder of PyLate, version 3."""
    own = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 16, "document_length": 40}
    older = {"attend_to_expansion_tokens": False, "skiplist_words": ["!", "."], "do_query_expansion": True}
    return edited(tiny_multi_vector(folder), "config_sentence_transformers.json", model_type="ColBERT", **own, **older)


def saved_here(folder: Path) -> Path:
    """A folder that hardneg saved."""
    own = {
        "similarity": "cosine",
        "query_prompt": "q: ",
        "document_prompt": "",
        "query_length": 20,
        "document_length": 90,
    }
    return edited(tiny_encoder(folder), SPEC_FILE, **own)


ST = "config_sentence_transformers.json"
FORMS: dict[str, Callable[[Path], Path]] = {
    "tiny": tiny_encoder,
    "bare": lambda folder: tiny_encoder(folder, kind="transformers"),
    "head of masked words": tiny_masked_lm,
    "sparse": tiny_sparse_encoder,
    "static": tiny_static,
    "static, not normalised": lambda folder: tiny_static(folder, normalised=False),
    "model2vec": tiny_model2vec,
    "multi-vector": tiny_multi_vector,
    "multi-vector, no expansion": lambda folder: tiny_multi_vector(folder, expansion=None, dimension=None),
    "stanford": stanford,
    "pylate": pylate,
    "router": routed,
    "adapter": adapted,
    "with a spec": saved_here,
    "dot, normalised": lambda folder: edited(tiny_encoder(folder), ST, similarity_fn_name="dot"),
    "truncated": lambda folder: edited(tiny_encoder(folder), ST, truncate_dim=16),
    "prompts": lambda folder: edited(
        tiny_encoder(folder), ST, prompts={"query": "q ", "passage": "p ", "s2p": "s "}, default_prompt_name="s2p"
    ),
    "no length": lambda folder: edited(tiny_encoder(folder), "sentence_bert_config.json", max_seq_length=None),
    "too long": lambda folder: edited(tiny_encoder(folder), "sentence_bert_config.json", max_seq_length=9999),
    "lengths by side": lambda folder: edited(tiny_encoder(folder), "sentence_bert_config.json", query_length=30),
    "own code": lambda folder: edited(
        tiny_encoder(folder), "config.json", auto_map={"AutoModel": "own.Model"}, is_causal=False
    ),
    "positions after padding": lambda folder: edited(
        tiny_encoder(folder, kind="transformers"), "config.json", model_type="roberta", pad_token_id=1
    ),
    **{name: form.write for name, form in PUBLISHED.items()},
}
SPECS: Mapping[str, Mapping[str, Any]] = {
    "pooling": {"pooling": "cls", "similarity": "dot", "query_length": 33, "twins": True},
    "head": {"pooling": "mean", "projection": 8, "layer_norm": True, "activation": "tanh"},
    "new adapter": {"adapter": AdapterSpec(rank=4, save="apart")},
    "prompt": {"query_prompt": PromptName("s2p"), "document_prompt": "{task}: ", "task": "find it"},
    "types": {"document_token_type": 1, "dtype": "bf16", "truncate_dim": 8},
    "derived static": {"encoder": PluginSetting("static", {"dimensions": 8})},
    "derived sparse": {"encoder": PluginSetting("sparse", {"max_terms": 5})},
    "derived multi-vector": {"encoder": PluginSetting("multi-vector", {"dimension": 8, "query_expansion": 10})},
}
"""Specs for folders; each is read for three of them."""
NAMED = [*FORMS, *(f"{form} + {spec}" for form in ("tiny", "bare", "prompts") for spec in SPECS)]
if "multi-vector" not in plugin_names("encoders"):
    NAMED = [name for name in NAMED if "multi-vector" not in name and name not in ("stanford", "pylate")]
if "sparse" not in plugin_names("encoders"):
    NAMED = [name for name in NAMED if "sparse" not in name]
SLOW = PUBLISHED.keys() - _FAST


def pin(name: str, folder: Path) -> dict[str, Any]:
    """What is read of a folder; its weights are numbers that no library draws."""
    form, _, setting = name.partition(" + ")
    folder = FORMS[form](folder)
    for path in sorted(folder.parent.rglob("*.safetensors")):
        tensors = safetensors.numpy.load_file(path)
        filled = {
            key: (np.arange(value.size).reshape(value.shape) % 251 / 251 - 0.4).astype(value.dtype)
            if value.dtype.kind == "f"
            else value
            for key, value in sorted(tensors.items())
        }
        safetensors.numpy.save_file(filled, path, {"format": "pt"})
    try:
        model = resolve(ModelSpec(str(folder), **SPECS.get(setting, {})))
        full, contract = asdict(model.full), asdict(model.contract)
        read = {"family": type(model.family).__name__, "digest": model.digest, "dimension": model.dimension}
    except ModelError as error:
        return {"refused": str(error).replace(str(folder.parent), "FOLDER")}
    del full["name"]
    if full["adapter"] and full["adapter"]["source"]:
        full["adapter"]["source"] = "FOLDER"
    content: dict[str, Any] = json.loads(json.dumps(read | {"spec": full, "contract": contract}))
    return content


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in NAMED]
)
def test_model_is_read_as_ever(name: str, tmp_path: Path) -> None:
    pinned = json.loads(PINS.read_text(encoding="utf-8"))
    expected, found = pinned["models"][name], pin(name, tmp_path / "model")
    if pinned["of"] != VERSIONS:
        expected.pop("digest", None), found.pop("digest", None)
    assert found == expected


if __name__ == "__main__":
    pins = {}
    for each in NAMED:
        place = Path(tempfile.mkdtemp())
        pins[each] = pin(each, place / "model")
        shutil.rmtree(place)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(content)}" for name, content in pins.items())
    PINS.write_text(f'{{"of": {json.dumps(VERSIONS)}, "models": {{\n{lines}\n}}}}\n', encoding="utf-8")
