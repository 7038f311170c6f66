"""Stage `index`: an index over the corpus's texts, such as Lucene's for BM25."""

from collections.abc import Iterator
from typing import Any

from hardneg.data.corpus import Corpus
from hardneg.progress import Progress
from hardneg.stages.opening import open_collection
from hardneg.stages.work import Work


def run(work: Work) -> dict[str, Any]:
    """Builds the index; one that was not closed cannot be gone on with."""
    corpus = open_collection(work.inputs["dataset"]).corpus
    work.plugins["backend"].build(_entries(corpus, work.progress), work.folder)
    return {"passages": len(corpus)}


def _entries(corpus: Corpus, progress: Progress) -> Iterator[tuple[str, str]]:
    with progress.task("indexing", len(corpus), "passages") as task:
        row = 0
        for block in corpus.blocks():
            yield from zip(corpus.doc_ids[row : row + len(block)], block, strict=True)
            row += len(block)
            task.advance(len(block))
