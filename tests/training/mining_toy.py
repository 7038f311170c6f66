"""A program that mines, in one process or several, twice: who encoded how much."""

import sys
from pathlib import Path
from typing import Any

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import positives
from hardneg.runtime import join, leave
from hardneg.store.blocks import BlockStore
from hardneg.training import checkpoint, examples, options
from hardneg.training.checkpoint import RefreshFolder
from hardneg.training.methods.ance import SynchronousProvider
from hardneg.training.refresh import Mining, mine_refresh


def mining(collection: StoredCollection) -> Mining:
    queries = collection.queries("dev")
    data = examples.TrainingData(collection.corpus, queries.query_ids, queries.texts, positives(collection.all_qrels()))
    return Mining(data, options.RefreshOptions("synchronous", every=5, depth=50, precision="fp32"), 1)


def main(model: str, stored: str, out: str) -> None:
    here, folder = join(on_cpu=True), Path(out)
    encoder = load_learner(ModelSpec(model, query_length=16, document_length=24), "cpu")
    write, blocks, told = BlockStore.write, [], []

    def counted(self: BlockStore, number: int, *more: Any) -> None:
        blocks.append(number)
        write(self, number, *more)

    BlockStore.write = counted  # type: ignore[method-assign]
    place, checkpoints = RefreshFolder(folder / "refreshes"), checkpoint.Checkpoints(folder, "")
    way = mining(StoredCollection.open(Path(stored)))
    supply = SynchronousProvider(encoder, way, place, checkpoints, 0, 5, told.append)
    supply.prepare(0)
    supply.prepare(3)  # nothing is due
    (folder / f"blocks-{here.rank}").write_text(f"{blocks} {len(told)}\n")
    mine_refresh([encoder], supply.mining, place, 1, 5)
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
