"""Stage `index`: an index over the corpus's texts, such as Lucene's for BM25, or over vectors."""

from collections.abc import Iterator
from typing import Any

from hardneg.analysis.sizes import index_bytes
from hardneg.data.corpus import Corpus
from hardneg.stages.context import StageContext
from hardneg.stages.opening import open_corpus


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Builds the index; one that was not closed cannot be gone on with."""
    backend = work.plugins["backend"]
    if "vectors" in work.inputs:
        source: Any = work.inputs["vectors"].folder
    else:
        source = _entries(open_corpus(work))
    count = backend.build(source, work.folder, work.progress)
    encoded = work.inputs["vectors"].facts if "vectors" in work.inputs else {}
    counts = {"passages": encoded["passages"], "segments": count} if "segments" in encoded else {"passages": count}
    return {**counts, "bytes": index_bytes(work.folder)}


def _entries(corpus: Corpus) -> Iterator[tuple[str, str]]:
    row = 0
    for block in corpus.blocks():
        yield from zip(corpus.doc_ids[row : row + len(block)], block, strict=True)
        row += len(block)
