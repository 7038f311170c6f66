"""The toy task with a fixed index, and a program that trains queries on it until it is killed."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from toy import Bag, BagEncoder, KilledAt, options, toy_data

from hardneg.data.flat import FlatVectors, FlatWriter
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.flat import FlatSearcher
from hardneg.losses.lambda_rank import LambdaLoss
from hardneg.progress import Silent
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.loop import TrainingResult, learn
from hardneg.training.query_side.approach import Index, QuerySide, QuerySideOptions
from hardneg.training.query_side.sources import Clock, Searched, Source, Uniform
from hardneg.training.query_side.tables import Table, mined, searched
from hardneg.training.query_side.watch import Watch

DEPTH = 8


class TwinBags(BagEncoder):
    """A bag of words for queries and another one, with the same weights at first, for documents."""

    def __init__(self) -> None:
        super().__init__()
        self.documents = Bag().eval()
        self.documents.load_state_dict(self.module.state_dict())

    def parts(self, kind: str) -> list[Bag]:
        return [self.module if kind == "query" else self.documents]

    def embed(self, features: dict[str, Tensor], kind: str) -> Tensor:
        vectors: Tensor = self.parts(kind)[0](**features)
        return vectors.float()


def write_index(folder: Path, data: TrainingData, encoder: Any) -> FlatSearcher:
    vectors = encoder.encode(list(data.corpus.contents(np.arange(len(data.corpus)))), "document")
    with FlatWriter(folder, vectors.shape[1], len(vectors)) as writer:
        writer.write_block(0, 0, vectors)
        writer.write_doc_ids(data.corpus.doc_ids)
        writer.close()
    return open_index(folder)


def open_index(folder: Path) -> FlatSearcher:
    return FlatSearcher(FlatVectors.open(folder), ExactOptions(device="cpu"))


def approach(
    schedule: str, data: TrainingData, searcher: FlatSearcher, folder: Path, every: int = 0, **more: Any
) -> QuerySide:
    encoder: Any = TwinBags()
    examples = Examples(data, int(schedule == "static"), 42)
    index = Index(searcher, data.corpus.content_hash, "toy")
    clock, shape = Clock(), (len(data.query_ids), DEPTH)
    sources: dict[str, Source] = {
        "dynamic": Searched(searcher, DEPTH, clock),
        "static": Table(folder, shape, mined(data, data.negatives, DEPTH)),  # type: ignore[arg-type]
        "refreshed": Table(folder, shape, searched(encoder, data, searcher, DEPTH), 4),
        "random": Uniform(len(data.corpus), DEPTH, 42),
    }
    asked = examples.of(examples.queries[:6])
    fixed = np.arange(12, 18)[None] + np.arange(6)[:, None]
    watch = Watch(encoder, searcher, len(data.corpus), asked, lambda: fixed, every, 5) if every else None
    return QuerySide(encoder, examples, index, sources[schedule], QuerySideOptions(**more), watch, clock)


def run(way: QuerySide, folder: Path, loss: Any = None, progress: Any = None, **more: Any) -> TrainingResult:
    chosen = options(**{"checkpoint_every": 3, **more})
    return learn(way, loss or LambdaLoss(cut=DEPTH), chosen, folder, progress=progress or Silent())


def main(toy: str, index: str, folder: str, schedule: str, killed_at: str) -> None:
    from safetensors.torch import save_model

    progress = KilledAt(int(killed_at)) if int(killed_at) else Silent()
    data = toy_data(Path(toy))
    way = approach(schedule, data, open_index(Path(index)), Path(folder), every=3)
    run(way, Path(folder), progress=progress)
    save_model(way.encoder.module, str(Path(folder) / "final.safetensors"))


def shared(toy: str, index: str, folder: str) -> None:
    """What one of several processes, or a single one, comes to; without dropout, which each would draw for itself."""
    from safetensors.torch import save_model

    from hardneg.distributed import leave, world

    data, here = toy_data(Path(toy)), world()
    for schedule in ("dynamic", "refreshed"):
        place = Path(folder) / f"{here.size}-{schedule}"
        way: Any = approach(schedule, data, open_index(Path(index)), place, every=3, forced="always")
        way.encoder.module.dropout.p = 0.0
        run(way, place, batch_size=5, max_steps=6)
        save_model(way.encoder.module, str(place / f"final-{here.rank}.safetensors"))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) > 4 else shared(*sys.argv[1:])
