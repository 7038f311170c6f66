"""Stage `index`: an index over the corpus's texts, such as Lucene's for BM25."""

from collections.abc import Iterator
from typing import Any

from hardneg.data.corpus import Corpus
from hardneg.stages.opening import open_collection
from hardneg.stages.work import Work


def run(work: Work) -> dict[str, Any]:
    """Builds the index; one that was not closed cannot be gone on with."""
    corpus = open_collection(work.inputs["dataset"]).corpus
    return {"passages": work.plugins["backend"].build(_entries(corpus), work.folder, work.progress)}


def _entries(corpus: Corpus) -> Iterator[tuple[str, str]]:
    row = 0
    for block in corpus.blocks():
        yield from zip(corpus.doc_ids[row : row + len(block)], block, strict=True)
        row += len(block)
