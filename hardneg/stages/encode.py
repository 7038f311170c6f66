"""Stage `encode`: the corpus as vectors in a flat index, block by block."""

from pathlib import Path
from typing import Any

from hardneg.data.flat import FlatVectors, FlatWriter
from hardneg.distributed import barrier, world
from hardneg.errors import ArtifactError
from hardneg.models.encoder import EncodeOptions
from hardneg.models.stream import encode_blocks
from hardneg.stages.opening import open_collection, open_encoder
from hardneg.stages.work import Work

EVERY_PROCESS = True


def run(work: Work) -> dict[str, Any]:
    """Encodes every block that is not yet there; a stopped run goes on at the first unfinished one."""
    corpus = open_collection(work.inputs["dataset"]).corpus
    encoder = open_encoder(work.inputs["model"], work.device)
    options = EncodeOptions(tokens_per_batch=work.spec.tokens_per_batch, precision=work.spec.precision)
    here = world()
    if not _finished(work.folder, (encoder.dimension, len(corpus))):
        with FlatWriter(work.folder, encoder.dimension, len(corpus), here.rank) as writer:
            encode_blocks(encoder, corpus, writer, options, work.progress, here)
            if here.first:
                barrier()
                writer.write_doc_ids(corpus.doc_ids)
                writer.close()
        if not here.first:
            barrier()  # the first one removes the journals when they are closed
    if here.first:
        work.keep_only("index", "docid")
    size = (work.folder / "index").stat().st_size if here.first else 0
    return {"passages": len(corpus), "dimension": encoder.dimension, "bytes": size}


def _finished(folder: Path, shape: tuple[int, int]) -> bool:
    """Whether a run that was stopped just before its commit left all vectors."""
    try:
        found = FlatVectors.open(folder)
    except ArtifactError:
        return False
    return (found.dimension, found.count) == shape
