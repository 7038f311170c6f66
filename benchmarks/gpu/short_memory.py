"""Passes that the device's memory does not hold: encoding and reranking go on in smaller ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gpu.material import LENGTH, encoder, model, texts
from gpu.setting import Figures, Setting, expect

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairNetwork, PairScorer

_LEFT = 3 << 30  # bytes that a ballast leaves free
_TOKENS = 2000  # that a pass may have where memory is played


def recovery(setting: Setting) -> Figures:
    """Vectors and scores with far too large passes in little memory are those with usual ones."""
    large = EncodeOptions(tokens_per_batch=1 << 24, precision="fp32")
    usual, passages = EncodeOptions(precision="fp32"), texts(setting.size(40_000, 128), 90)
    coder, found = encoder(setting), Figures()
    network = CrossEncoder(str(model(setting)), length=LENGTH).load().to(setting.device)
    requests = [("w1 w2 w3", passages[: setting.size(20_000, 64)])]
    expected = coder.encode(passages, "document", usual), _scores(network, setting, usual, requests)[0]
    with _little_memory(setting, coder):
        encoded = coder.encode(passages, "document", large)
        scores, tokens = _scores(network, setting, large, requests)
    for name, one, other in (("vectors", encoded, expected[0]), ("scores", scores, expected[1])):
        apart = float(np.abs(np.asarray(one) - np.asarray(other)).max())
        expect(apart < 1e-3, f"{name} are {apart:.1e} from those of usual passes")
        found[f"{name}, largest difference"] = round(apart, 7)
    expect(tokens < 1 << 24, "memory held a pass of 2^24 tokens: nothing was asked")
    return found | {"tokens a pass, in the end": tokens}


def _scores(network: Any, setting: Setting, options: EncodeOptions, requests: Any) -> tuple[Any, int]:
    scorer = PairScorer.of(network, setting.device, options)
    return np.concatenate([np.asarray(each) for each in scorer.rerank(requests)]), scorer.budget.tokens


@contextmanager
def _little_memory(setting: Setting, coder: Encoder) -> Iterator[None]:
    """A ballast on a GPU; on a CPU a pass of more than 2,000 tokens is refused as a GPU does it."""
    if setting.gpu:
        torch.cuda.empty_cache()
        ballast = torch.empty(max(0, torch.cuda.mem_get_info()[0] - _LEFT), dtype=torch.uint8, device=setting.device)
        yield
        del ballast
        return
    run, logits = type(coder.representation).run, PairNetwork.logits
    type(coder.representation).run = _refusing(run)  # type: ignore[method-assign]
    PairNetwork.logits = _refusing(logits)  # type: ignore[method-assign]
    try:
        yield
    finally:
        type(coder.representation).run = run  # type: ignore[method-assign]
        PairNetwork.logits = logits  # type: ignore[method-assign]


def _refusing(whole: Any) -> Any:
    def run(*given: Any) -> Any:
        features = next(each for each in given if isinstance(each, dict))
        if features["input_ids"].numel() > _TOKENS:
            raise torch.OutOfMemoryError("CUDA out of memory, as it is played here.")
        return whole(*given)

    return run
