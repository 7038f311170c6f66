"""The toy task with a fixed index, and a program that trains queries on it until it is killed."""

import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from toy import Bag, BagEncoder, KilledAt, options, toy_data

from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes import exact, product
from hardneg.indexes.exact import ExactOptions
from hardneg.losses.pairwise import LambdaLoss
from hardneg.protocols import DenseSearcher
from hardneg.runtime import Silent, leave, world
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.loop import TrainingResult, learn
from hardneg.training.methods import adore
from hardneg.training.validation import StalenessWatch

DEPTH = 8


class TwinBags(BagEncoder):
    """A bag of words for queries and another one, with the same weights at first, for documents."""

    def __init__(self) -> None:
        super().__init__()
        self.documents = Bag().eval()
        self.documents.load_state_dict(self.module.state_dict())

    def parts(self, side: str) -> list[Bag]:
        return [self.module if side == "query" else self.documents]

    def embed(self, features: dict[str, Tensor], side: str) -> Tensor:
        vectors: Tensor = self.parts(side)[0](**features)
        return vectors.float()


def write_index(folder: Path, data: TrainingData, encoder: Any) -> exact.FlatSearcher:
    vectors = encoder.encode(list(data.corpus.contents(np.arange(len(data.corpus)))), "document")
    with FlatWriter(folder, vectors.shape[1], len(vectors)) as writer:
        writer.write(vectors)
        writer.write_doc_ids(data.corpus.doc_ids)
        writer.close()
    return open_index(folder)


def open_index(folder: Path) -> exact.FlatSearcher:
    return exact.FlatSearcher(FlatVectors.open(folder), options=ExactOptions(device="cpu"))


def approach(
    schedule: str, data: TrainingData, searcher: DenseSearcher, folder: Path, every: int = 0, **more: Any
) -> adore.AdoreTraining:
    encoder: Any = TwinBags()
    examples = Examples(data, int(schedule == "static"), 42)
    shape = len(data.query_ids), DEPTH
    sources: dict[str, adore.NegativeSource] = {
        "dynamic": adore.Searched(searcher, DEPTH),
        "static": adore.NegativeTable(folder, shape, adore.mined(data, data.negatives, DEPTH)),  # type: ignore[arg-type]
        "refreshed": adore.NegativeTable(folder, shape, adore.lists_by(encoder, data, searcher, DEPTH), 4),
        "random": adore.Uniform(len(data.corpus), DEPTH, 42),
    }
    asked = examples.of(examples.queries[:6])
    fixed = np.arange(12, 18)[None] + np.arange(6)[:, None]
    watch = (
        StalenessWatch(encoder, searcher, len(data.corpus), asked, lambda vectors: fixed, every, 5) if every else None
    )
    return adore.AdoreTraining(
        encoder=encoder,
        examples=examples,
        searcher=searcher,
        index="toy",
        content_hash=data.corpus.content_hash,
        source=sources[schedule],
        watch=watch,
        **more,
    )


def joint(
    index: Path, schedule: str, data: TrainingData, folder: Path, every: int = 0, **more: Any
) -> adore.JpqTraining:
    """As `approach`, on a product-quantised index whose centroids learn too."""
    way = approach(schedule, data, product.PqSearcher.open(index), folder, every, **more)
    kept = {item.name: getattr(way, item.name) for item in fields(way)}
    return adore.JpqTraining(**kept, factor=3.0)


def run(way: adore.AdoreTraining, folder: Path, loss: Any = None, progress: Any = None, **more: Any) -> TrainingResult:
    chosen = options(**{"checkpoint_every": 3, **more})
    return learn(way, loss or LambdaLoss(cut=DEPTH), chosen, folder, progress=progress or Silent())


def main(toy: str, index: str, folder: str, schedule: str, killed_at: str) -> None:
    from safetensors.torch import save_model

    progress = KilledAt(int(killed_at)) if int(killed_at) else Silent()
    data = toy_data(Path(toy))
    way = approach(schedule, data, open_index(Path(index)), Path(folder), every=3)
    run(way, Path(folder), progress=progress)
    save_model(way.encoder.module, str(Path(folder) / "final.safetensors"))


@dataclass(frozen=True)
class Fragile(LambdaLoss):
    """The lambda loss; its fifth call may be forbidden."""

    calls: ClassVar[list[int]] = []
    forbidden: ClassVar[bool] = False

    def __call__(self, batch: Any) -> Tensor:
        self.calls.append(1)
        if self.forbidden and len(self.calls) == 5:
            raise KeyboardInterrupt
        return super().__call__(batch)


def shared(toy: str, index: str, folder: str, *cases: str) -> None:
    """What one of several processes, or a single one, comes to; without dropout, which each would draw for itself.

    A case is a schedule, or a kind of index and a schedule. Several processes stop at the fifth batch of each, which is
    the first of the third step, and go on from the checkpoint after the second.
    """
    from safetensors.torch import save_model

    data, here = toy_data(Path(toy)), world()
    for case in cases:
        place, (*kind, schedule) = Path(folder) / f"{here.size}-{case}", case.split(":")
        for Fragile.forbidden in (True, False) if here.size > 1 else (False,):
            Fragile.calls.clear()
            make = (
                partial(joint, Path(index) / kind[0]) if kind else partial(approach, searcher=open_index(Path(index)))
            )
            way: Any = make(schedule, data, folder=place, every=3, forced="always")
            way.encoder.module.dropout.p = 0.0
            with suppress(KeyboardInterrupt):
                run(way, place, Fragile(cut=DEPTH), batch_size=5, max_steps=6, checkpoint_every=2)
        save_model(way.forward_module, str(place / f"final-{here.rank}.safetensors"))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[-1].isdigit() else shared(*sys.argv[1:])
