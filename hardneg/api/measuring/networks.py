"""Tokens a second of models that encode and that learn."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hardneg.api.measuring.material import LENGTH, QUERY_LENGTH, many
from hardneg.costs.rates import Pace
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.losses.infonce import InfoNCE
from hardneg.records.errors import TrainingError
from hardneg.records.types import Document
from hardneg.runtime.progress import Silent
from hardneg.training.examples import TrainingData
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

SECONDS = 6.0
"""That an encoding is measured for, about."""
_FIRST, _MOST = 64, 200_000  # texts
_FEW, _STEPS, _LEAST = 2, 6, 3.0  # steps that are not counted, at least counted, and seconds of these


def encoding(folder: Path, hidden: int, layers: int, device: str | None) -> Pace:
    """The pace of the model in a folder at encoding texts as an `encode` stage does, tokenising included."""
    encoder = Encoder.load(ModelSpec(str(folder), document_length=LENGTH), device)
    options = EncodeOptions()
    count, taken = _FIRST, _seconds(lambda: encoder.encode(many(_FIRST), "document", options))
    while taken < SECONDS / 2 and count < _MOST:
        count = min(_MOST, max(2 * count, round(count * SECONDS / taken)))
        passages = many(count)
        taken = _seconds(lambda passages=passages: encoder.encode(passages, "document", options))  # type: ignore[misc]
    lengths = encoder.tokenise(many(min(count, 2048)), "document").lengths
    return Pace(hidden, layers, round(float(lengths.mean()), 1), round(count * float(lengths.mean()) / taken, 1))


def learning(folder: Path, hidden: int, layers: int, device: str | None) -> Pace:
    """The pace of the model at learning from queries with a positive each, as a `train` stage does.

    A training of a few steps is measured, and one of more: what both have in common is not counted.
    """
    batch = 8
    _trained(folder, batch, 1, device)  # to warm up
    short = _trained(folder, batch, _FEW, device)
    steps = _FEW + max(_STEPS, round(_LEAST * _FEW / short))
    taken = _trained(folder, batch, steps, device) - short
    if taken <= 0:
        raise TrainingError(f"{steps} steps took no longer than {_FEW}: measure again when the machine is idle")
    encoder = Encoder.load(ModelSpec(str(folder), query_length=QUERY_LENGTH, document_length=LENGTH), "cpu")
    queries, documents = _texts(64)
    each = float(encoder.tokenise(queries, "query").lengths.mean())
    length = float(encoder.tokenise(documents, "document").lengths.mean())
    tokens = batch * (steps - _FEW) * (each + length)
    return Pace(hidden, layers, round(length, 1), round(tokens / taken, 1))


def _trained(folder: Path, batch: int, steps: int, device: str | None) -> float:
    """Seconds of a training of so many steps."""
    queries, documents = _texts(batch * steps)
    work = folder.with_name(f"{folder.name}-training-{steps}")
    write_corpus((Document(f"d{row}", text) for row, text in enumerate(documents)), work / "corpus", Silent())
    query_ids = [f"q{row}" for row in range(len(queries))]
    positives = {f"q{row}": [f"d{row}"] for row in range(len(queries))}
    data = TrainingData(Corpus.open(work / "corpus"), query_ids, queries, positives)
    spec = ModelSpec(str(folder), query_length=QUERY_LENGTH, document_length=LENGTH)
    learner = Encoder.load(spec, device)
    options = TrainOptions(
        batch_size=batch, negatives_per_query=0, max_steps=steps, learning_rate=1e-5, checkpoint_every=None
    )
    return _seconds(lambda: train(learner, data, InfoNCE(), options, work, progress=Silent()))


def _texts(count: int) -> tuple[list[str], list[str]]:
    """Documents, and as many queries, which are their first words."""
    documents = many(count)
    draws = np.random.default_rng(0)
    sizes = draws.integers(4, 16, count)
    return [" ".join(text.split()[:size]) for text, size in zip(documents, sizes, strict=False)], documents


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
