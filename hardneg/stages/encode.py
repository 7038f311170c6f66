"""Stage `encode`: the corpus as vectors in a flat index, block by block."""

from typing import Any

from hardneg.counting import counted
from hardneg.data.corpus import Corpus
from hardneg.distributed import World, world
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.models.segmenting import SegmentedCorpus
from hardneg.models.stream import write_index
from hardneg.stages.context import StageContext
from hardneg.stages.opening import open_corpus, open_encoder


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Encodes every block that is not yet there; a stopped run goes on at the first unfinished one."""
    corpus = open_corpus(work)
    encoder = open_encoder(work.inputs["model"], work.device, work.spec.precision)
    options = EncodeOptions(tokens_per_batch=work.spec.tokens_per_batch, precision=work.spec.precision)
    here = world()
    rows = _rows(work, corpus, encoder, here)
    write_index([encoder], rows, work.folder, options, work.progress)
    if here.first:
        work.keep_only("index", "docid")
    size = (work.folder / "index").stat().st_size if here.first else 0
    facts = {"passages": len(corpus), "dimension": encoder.dimension, "bytes": size}
    return facts | (_cut_facts(work, rows) if isinstance(rows, SegmentedCorpus) else {})


def _rows(work: StageContext[Any], corpus: Corpus, encoder: Encoder, here: World) -> Corpus | SegmentedCorpus:
    """What gets a vector each: documents, or their segments."""
    if work.spec.segments is None:
        return corpus
    return SegmentedCorpus.counted(encoder, corpus, work.spec.segments, work.folder, work.progress, here)


def _cut_facts(work: StageContext[Any], rows: SegmentedCorpus) -> dict[str, int]:
    """How many segments there are, and what of the documents was not read."""
    if rows.cut_off and world().first:
        documents = counted(len(rows.first) - 1, "document")
        behind = f"{rows.cut_off} of {documents} {'has' if rows.cut_off == 1 else 'have'} text behind the last segment"
        work.progress.note(f"{work.name}: {behind} ({rows.cut.count} of {rows.cut.length} tokens); it is not read")
    return {"segments": len(rows), "documents cut off": rows.cut_off}
