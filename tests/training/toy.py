"""A toy task that a tiny encoder can learn, and a program that trains on it until it is killed."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Representation
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.losses.pairwise import Star
from hardneg.records import Document, EncodedBatch, Negatives
from hardneg.runtime import Silent
from hardneg.training.examples import TrainingData
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions


@dataclass(frozen=True)
class Squares:
    """A regularizer: weighted squared norms of the means of queries and documents, whole after a part of training."""

    version, form = 1, "vectors"
    queries: float = 0.0
    documents: float = 1.0
    ramp: float | None = None

    def __call__(self, batch: EncodedBatch) -> Tensor:
        share = 1.0 if self.ramp is None else min(1.0, batch.done / self.ramp)
        shares = batch.counts.to(batch.documents.dtype) / batch.counts.sum()
        parts = ((self.queries, batch.queries.mean(0)), (self.documents, shares @ batch.documents))
        return share * sum(weight * mean.square().sum() for weight, mean in parts)


WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord"]
WORDS += ["grove", "heath", "islet", "jetty", "knoll", "ledge"]


def write_toy(folder: Path) -> Path:
    """12 queries; query i has positives p<i> and, for even i, also extra<i>; c0 is a copy of p0."""
    documents = [Document(f"p{i}", f"about the {word} and nothing else") for i, word in enumerate(WORDS)]
    documents += [Document(f"extra{i}", f"more on {WORDS[i]}") for i in range(0, 12, 2)]
    documents += [Document("c0", f"about the {WORDS[0]} and nothing else")]
    documents += [Document(f"n{i}", f"noise {i} on a {WORDS[i % 12]} of no use") for i in range(21)]
    write_corpus(documents, folder / "corpus", Silent())
    none = np.zeros(6, np.float32)
    rows = [Negatives(f"q{i}", [f"p{i}"], [f"n{j}" for j in range(i, i + 6)], none) for i in range(12)]
    write_negatives(folder / "negatives.arrow", rows)
    return folder


def toy_data(folder: Path) -> TrainingData:
    positives = {f"q{i}": [f"p{i}", f"extra{i}"] if i % 2 == 0 else [f"p{i}"] for i in range(12)}
    texts = [f"what is {word}" for word in WORDS]
    corpus = Corpus.open(folder / "corpus")
    return TrainingData(corpus, list(positives), texts, positives, read_negatives(folder / "negatives.arrow"))


class Bag(nn.Module):
    """Mean of word vectors, then dropout, a linear layer and a LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(512, 16)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(16, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, words: Tensor, starts: Tensor) -> Tensor:
        vectors: Tensor = self.norm(self.head(self.dropout(self.words(words, starts))))
        return vectors


class BagEncoder:
    """What the loop needs of an encoder, without a transformer."""

    def __init__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.module = Bag()
        self.module.eval()
        self.device = torch.device("cpu")
        self.spec = SimpleNamespace()

    def features(self, texts: list[str], side: str) -> dict[str, Tensor]:
        bags = [[_hash(word) for word in text.split()] for text in texts]
        starts = np.cumsum([0, *(len(bag) for bag in bags)])[:-1]
        words = torch.tensor([word for bag in bags for word in bag])
        return {"words": words, "starts": torch.from_numpy(starts)}

    def embed(self, features: dict[str, Tensor], side: str) -> Tensor:
        vectors: Tensor = self.module(**features)
        return vectors.float()

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        return Representation().score(queries, documents, columns)

    def score_lists(self, queries: Tensor, encoded: Any) -> Tensor:
        return Representation().score_lists(queries, encoded)

    def tensor(self, encoded: np.ndarray) -> Tensor:
        return torch.from_numpy(encoded)

    def collect(self, tensor: Tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def encode(self, texts: list[str], side: str, *rest: Any) -> np.ndarray:
        training = self.module.training
        self.module.eval()
        with torch.inference_mode():
            vectors = self.embed(self.features(texts, side), side).numpy()
        self.module.train(training)
        return vectors


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "little") % 512


def options(optimizer: str = "adamw", **more: Any) -> TrainOptions:
    settings: dict[str, Any] = {
        "batch_size": 4,
        "negatives_per_query": 2,
        "max_steps": 12,
        "optimizer": optimizer,
        "accumulate": 2,
        "learning_rate": 1e-2,
        "precision": "fp32",
        "checkpoint_every": 2,
    }
    return TrainOptions(**{**settings, **more})


class KilledAt(Silent):
    """A progress display that kills its own process at the n-th description."""

    def __init__(self, step: int) -> None:
        self.left = step

    def task(self, *args: Any, **kwargs: Any) -> Any:
        @contextmanager
        def running() -> Any:
            yield SimpleNamespace(advance=lambda count=1: None, describe=self._describe)

        return running()

    def _describe(self, text: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), 9)


class Interrupted(Silent):
    """A progress display at which someone presses Ctrl-C."""

    def __init__(self, after: int) -> None:
        self.after = after

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        yield self

    def advance(self, count: int = 1) -> None:
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt

    def describe(self, text: str) -> None:
        pass


def main(toy: str, folder: str, optimizer: str, killed_at: str) -> None:
    from safetensors.torch import save_model

    encoder: Any = BagEncoder()
    progress = KilledAt(int(killed_at)) if int(killed_at) else Silent()
    train(encoder, toy_data(Path(toy)), Star(), options(optimizer), Path(folder), progress=progress)
    save_model(encoder.module, str(Path(folder) / "final.safetensors"))


if __name__ == "__main__":
    main(*sys.argv[1:])
