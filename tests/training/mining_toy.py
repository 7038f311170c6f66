"""A program that mines once, in one process or several: who encoded how much, and what came out."""

import sys
from pathlib import Path
from typing import Any

from hardneg.data.collection import StoredCollection
from hardneg.data.flat import FlatWriter
from hardneg.data.qrels import positives
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.examples import TrainingData
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.mining import Mining
from hardneg.training.refresh.options import RefreshOptions
from hardneg.training.refresh.provider import SynchronousProvider


def mining(collection: StoredCollection) -> Mining:
    queries = collection.queries("dev")
    data = TrainingData(collection.corpus, queries.query_ids, queries.texts, positives(collection.all_qrels()))
    return Mining(data, RefreshOptions("synchronous", every=5, depth=50, precision="fp32"), 1)


def main(model: str, stored: str, out: str) -> None:
    from hardneg.distributed import join, leave

    here, folder = join(on_cpu=True), Path(out)
    encoder = Encoder.load(ModelSpec(model, query_length=16, document_length=24), "cpu")
    write, blocks, told = FlatWriter.write_block, [], []

    def counted(self: FlatWriter, number: int, *more: Any) -> None:
        blocks.append(number)
        write(self, number, *more)

    FlatWriter.write_block = counted  # type: ignore[method-assign]
    place, checkpoints = RefreshFolder(folder / "refreshes"), Checkpoints(folder, "")
    supply = SynchronousProvider(
        encoder, mining(StoredCollection.open(Path(stored))), place, checkpoints, 0, 5, told.append
    )
    supply.prepare(0)
    supply.prepare(3)  # nothing is due
    (folder / f"blocks-{here.rank}").write_text(f"{blocks} {len(told)}\n")
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
