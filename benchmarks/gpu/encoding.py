"""Encoding against sentence-transformers on the same texts."""

import copy
from functools import partial
from importlib.util import find_spec
from unittest.mock import patch

import numpy as np
import torch
from gpu.material import encoder, insurance, model as bert_model, seconds, texts
from gpu.setting import Figures, Setting, expect
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions

Vectors = NDArray[np.float32]
_ENOUGH = {"fp32": 0.99999, "bf16": 0.995}


def speed(setting: Setting) -> Figures:
    """Mean and least cosine with its vectors in float32, texts a second, and as many times its own in either."""
    model, passages = encoder(setting), texts(setting.size(20_000, 64), 90)
    exact = _theirs(model.module, passages[:512])
    found: Figures = {}
    for precision in ("fp32", "bf16"):
        options = EncodeOptions(precision=precision)
        peer = model.module if precision == "fp32" else copy.deepcopy(model.module).to(torch.bfloat16)
        cosines = _cosines(model.encode(passages[:512], "document", options), exact)
        expect(float(cosines.mean()) > _ENOUGH[precision], f"{precision}: mean cosine {cosines.mean():.6f}")
        _theirs(peer, passages[:64])
        ours = len(passages) / seconds(partial(model.encode, passages, "document", options), setting)
        theirs = len(passages) / seconds(partial(_theirs, peer, passages), setting)
        found |= {
            f"{precision}, cosine": round(float(cosines.mean()), 6),
            f"{precision}, least cosine": round(float(cosines.min()), 6),
            f"{precision}, texts/s": round(ours, 1),
            f"{precision}, times sentence-transformers": round(ours / theirs, 2),
        }
    return found


def unpadded(setting: Setting) -> Figures:
    """Texts of InsuranceQA's lengths in bfloat16: times its unpadded FlashAttention, and times its padded way."""
    model, passages = encoder(setting, length=256), insurance(setting.size(50_000, 32))
    found, ours = _own_ways(setting, model, passages)
    flash = setting.gpu and find_spec("flash_attn") is not None
    ways = {"its padded bf16": _peer(setting, None)}
    ways["its unpadded FlashAttention" if flash else "its SDPA: no flash-attn here"] = _peer(setting, flash)
    for name, peer in ways.items():
        _theirs(peer, passages[:64])
        theirs = len(passages) / seconds(partial(_theirs, peer, passages), setting)
        found |= {f"{name}, texts/s": round(theirs, 1), f"times {name}": round(ours / theirs, 2)}
    return found


def _own_ways(setting: Setting, model: Encoder, passages: list[str]) -> tuple[Figures, float]:
    """Texts a second by what `auto` takes, and padded; and the first of these alone."""
    found, options, speeds = Figures(), EncodeOptions(precision="bf16"), dict[str, float]()
    with patch("hardneg.encoders.towers.faster", lambda name: None):
        padded = model.encode(passages[:512], "document", options)
        speeds["padded"] = len(passages) / seconds(partial(model.encode, passages, "document", options), setting)
    cosine = float(_cosines(model.encode(passages[:512], "document", options), padded).mean())
    expect(cosine > _ENOUGH["bf16"], f"mean cosine {cosine:.6f} to padded texts")
    speeds["auto"] = len(passages) / seconds(partial(model.encode, passages, "document", options), setting)
    found |= {f"{way}, texts/s": round(speed, 1) for way, speed in speeds.items()} | {"cosine": round(cosine, 6)}
    return found, speeds["auto"]


def _peer(setting: Setting, flash: bool | None) -> torch.nn.Module:
    """sentence-transformers' own; by FlashAttention it leaves padding out by itself. None: as it is by default."""
    from sentence_transformers import SentenceTransformer

    how = {} if flash is None else {"attn_implementation": "flash_attention_2" if flash else "sdpa"}
    made = SentenceTransformer(
        str(bert_model(setting)), device=setting.device, model_kwargs={"dtype": torch.bfloat16, **how}
    )
    made.max_seq_length = 256
    return made


def _theirs(module: torch.nn.Module, passages: list[str]) -> Vectors:
    found = module.encode(passages, batch_size=256, convert_to_tensor=True, show_progress_bar=False)
    vectors: Vectors = found.float().cpu().numpy()
    return vectors


def _cosines(one: Vectors, other: Vectors) -> Vectors:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines: Vectors = (one * other).sum(axis=1) / norms
    return cosines
