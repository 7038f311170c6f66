"""Reranking: the CPU's scores, and pairs a second against the peer's own prediction."""

import numpy as np
from gpu.material import LENGTH, model, seconds, texts
from gpu.setting import Figures, Setting, expect

from hardneg.encoders.protocol import EncodeOptions
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer

_SAME = {"fp32": 1e-3, "bf16": 5e-2}


def scores(setting: Setting) -> Figures:
    """The largest difference of probabilities from the CPU's in float32; times `CrossEncoder.predict`."""
    asked = _requests(setting.size(200, 4), setting.size(50, 8))
    pairs, expected = sum(len(documents) for _, documents in asked), _scored(setting, "cpu", "fp32", asked[:4])
    found: Figures = {"pairs": pairs}
    for precision, within in _SAME.items():
        apart = float(np.abs(_scored(setting, setting.device, precision, asked[:4]) - expected).max())
        expect(apart < within, f"{precision}: scores are {apart:.1e} apart from the CPU's")
        ours = seconds(lambda precision=precision: _scored(setting, setting.device, precision, asked), setting)
        found |= {f"{precision}, largest difference": round(apart, 7), f"{precision}, pairs/s": round(pairs / ours, 1)}
    peer = CrossEncoder(str(model(setting)), length=LENGTH).load().to(setting.device)
    flat = [(query, document) for query, documents in asked for document in documents]
    theirs = seconds(lambda: peer.predict(flat, batch_size=256, show_progress_bar=False), setting)
    best = max(float(found[f"{precision}, pairs/s"]) for precision in _SAME)
    return found | {"best, times CrossEncoder.predict": round(best * theirs / pairs, 2)}


def _requests(queries: int, depth: int) -> list[tuple[str, list[str]]]:
    passages = texts(queries * depth, 90)
    asked = texts(queries, 8, seed=2)
    return [(query, passages[row * depth : (row + 1) * depth]) for row, query in enumerate(asked)]


def _scored(setting: Setting, device: str, precision: str, asked: list[tuple[str, list[str]]]) -> "np.ndarray":
    network = CrossEncoder(str(model(setting)), length=LENGTH).load()
    scorer = PairScorer.of(network, device, EncodeOptions(precision=precision))  # type: ignore[arg-type]
    return np.concatenate([np.asarray(each, np.float32) for each in scorer.rerank(asked)])
