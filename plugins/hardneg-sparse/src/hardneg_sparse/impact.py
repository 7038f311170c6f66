"""Term weights as a Lucene impact index, which Pyserini's `LuceneImpactSearcher` can open.

The frequency of a term in a document, and its impact in a query, is its weight times `scale`, rounded. The score is the
inner product of frequencies and impacts. Frequencies are stored as numbers, so terms are not repeated.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    errors,
    index_checks,
    index_files,
    lucene_search,
    protocols,
    records,
    runtime,
    start_java,
    stores,
)
from hardneg_sparse.store import DOC_IDS, SparseRows, SparseStore, read_terms, write_terms

APART, BEHIND_TERM = "\ue000", "\ue001"
"""Private-use characters: one between terms, and one between a term and its frequency."""

MOST = 2**31 - 1
"""The largest sum of a document's term frequencies that Lucene supports."""

_BUFFER = 256.0  # MiB that Lucene keeps in memory before it writes to disk


def frequency_texts(
    offsets: NDArray[np.int64], terms: NDArray[np.object_], frequencies: NDArray[np.int64]
) -> list[str]:
    """Return each document's terms and positive frequencies as text for Lucene to index.

    The text of a document without terms is not empty, since Anserini skips empty documents.

    offsets: int64 [n + 1], the start of each document's terms. terms: str [m], each ending in `BEHIND_TERM`.
    frequencies: int64 [m].
    """
    kept = frequencies > 0
    bounds = np.concatenate([[0], np.cumsum(kept)])[offsets].tolist()
    numbers, inverse = np.unique(frequencies[kept], return_inverse=True)
    pieces = (terms[kept] + numbers.astype(str).astype(object)[inverse]).tolist()
    return [APART + APART.join(pieces[begin:end]) for begin, end in pairwise(bounds)]


@contextmanager
def _writing(folder: Path) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that adds a document, by id and frequency text, to a new index that replaces any in the folder.

    Documents stay in order, as only neighbouring segments are merged. After an error, there is no index.

    Raises MissingDependency if Pyserini or Java is not installed.
    Raises ArtifactError if Lucene cannot write the index.
    """
    start_java()
    from jnius import JavaException, autoclass

    def java_map(name: str, value: str) -> Any:
        mapping = autoclass("java.util.HashMap")()
        mapping.put(name, value)
        return mapping

    lucene = "org.apache.lucene"
    builder = autoclass(f"{lucene}.analysis.custom.CustomAnalyzer").builder()
    builder.withTokenizer("simplePatternSplit", java_map("pattern", APART))
    builder.addTokenFilter("delimitedTermFrequency", java_map("delimiter", BEHIND_TERM))
    config = autoclass(f"{lucene}.index.IndexWriterConfig")(builder.build())
    config.setOpenMode(autoclass(f"{lucene}.index.IndexWriterConfig$OpenMode").CREATE)
    config.setSimilarity(autoclass("io.anserini.search.similarity.ImpactSimilarity")())
    config.setMergePolicy(autoclass(f"{lucene}.index.LogByteSizeMergePolicy")())
    config.setRAMBufferSizeMB(_BUFFER)
    config.setUseCompoundFile(False)
    directory = autoclass(f"{lucene}.store.FSDirectory").open(autoclass("java.io.File")(str(folder)).toPath())
    writer = autoclass(f"{lucene}.index.IndexWriter")(directory, config)
    document = autoclass("io.anserini.collection.JsonCollection$Document")
    fields = autoclass("io.anserini.index.generator.DefaultLuceneDocumentGenerator")()
    try:
        try:
            yield lambda doc_id, text: writer.addDocument(fields.createDocument(document.fromFields(doc_id, text)))
        except BaseException:
            with suppress(JavaException):
                writer.rollback()
            raise
        writer.close()
    except JavaException as error:
        reason = lucene_search.java_reason(error)
        raise errors.ArtifactError(f"{folder}: Lucene cannot write the index ({reason}); check the disk") from error


_ROWS, _WEIGHTS = 2048, 1 << 20  # per block
_SEARCHER = "SimpleImpactSearcher"


@dataclass(frozen=True)
class Impact:
    """A Lucene index for learned sparse retrieval.

    Args:
        scale: factor applied to weights before rounding to integers.
    """

    scale: float = 100.0

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "lucene"
    input: ClassVar[str] = "weights"

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1e6:
            raise errors.UsageError(f"impact: scale is {self.scale}; it must be above 0 and below 1,000,000")

    def build(self, source: Path, path: Path, progress: runtime.Progress) -> int:
        """Index the weights in folder `source`, in row order; return the number of documents.

        Terms are indexed as words, or as numbers if the folder has no words. Weights below 0.5 / `scale` are lost;
        a note reports how many.

        Raises MissingDependency if Pyserini or Java is not installed.
        Raises UsageError if weights are negative or too large for `scale`, or a term contains a separator.
        Raises ArtifactError if the finished index has the wrong number of documents.
        """
        store = SparseStore.open(source)
        words, lost = store.terms or [str(number) for number in range(store.width)], 0
        if odd := [word for word in words if APART in word or BEHIND_TERM in word]:
            raise errors.UsageError(
                f"{source}: the term {odd[0]!r} cannot be stored in a Lucene index; use index `sparse`"
            )
        terms = np.array([word + BEHIND_TERM for word in words], object)
        with _writing(path) as add, progress.task("index", len(store), "passages") as task:
            for start, block in store.blocks(_ROWS, _WEIGHTS):
                impacts = self.impacts(block, f"{source}: from row {start} on, ")
                lost += int((impacts == 0).sum())
                texts = frequency_texts(block.offsets, terms[block.terms], impacts)
                for doc_id, text in zip(store.doc_ids[start : start + len(block)], texts, strict=True):
                    add(doc_id, text)
                task.advance(len(block))
        write_terms(path, words)
        stores.link_file(source / DOC_IDS, path / DOC_IDS)
        if lost:
            progress.note(f"impact: {lost} of {store.offsets[-1]} weights round to 0 with scale {self.scale:g}")
        total = int(lucene_search.open_lucene(path, _SEARCHER).get_total_num_docs())
        if total != len(store):
            raise errors.ArtifactError(f"{path}: Lucene has {total} of {len(store)} documents; rebuild the index")
        return total

    def impacts(self, rows: SparseRows, whose: str) -> NDArray[np.int64]:
        """Scale and round weights to int64. Raises UsageError, which starts with `whose`, if negative or too large."""
        if (rows.weights < 0).any():
            raise errors.UsageError(f"{whose}weights are below 0, which Lucene does not support; use index `sparse`")
        impacts = np.rint(rows.weights.astype(np.float64) * self.scale)
        sums = np.add.reduceat(np.append(impacts, 0), rows.offsets[:-1]) if len(rows) else impacts
        if (sums > MOST).any():
            raise errors.UsageError(f"{whose}weights are too large for scale {self.scale:g}; set a smaller scale")
        return impacts.astype(np.int64)

    def open(self, path: Path, rows: protocols.RowLookup | None = None) -> "ImpactSearcher":
        """Open the Lucene index in folder `path`; Lucene numbers documents in order, so `rows` is unused.

        Raises MissingDependency if Pyserini or Java is not installed.
        Raises ArtifactError if `path` does not contain a Lucene impact index.
        """
        lucene, doc_ids = lucene_search.open_lucene(path, _SEARCHER), index_files.DocIds(path / DOC_IDS)
        if not (path / DOC_IDS).exists() or lucene.get_total_num_docs() != len(doc_ids):
            raise errors.ArtifactError(f"{path / DOC_IDS}: does not have one id per document; rebuild the index")
        return ImpactSearcher(self, lucene, np.array(read_terms(path), object))


@dataclass(frozen=True)
class ImpactSearcher:
    """An opened Lucene impact index; `lucene` is Anserini's `SimpleImpactSearcher`.

    terms: object [width], the indexed word of each term.
    """

    backend: Impact
    lucene: Any
    terms: NDArray[np.object_]

    def search(self, queries: Any, k: int) -> records.Hits:
        """Return each query's top k documents that share a term with it, padded with row -1 and score -inf.

        Scores are inner products of rounded weights. Ties at rank k are broken by id, as in Anserini, others by row.

        Raises UsageError unless queries are non-negative term weights for the index's terms and k is at least 1.
        """
        if not isinstance(queries, SparseRows):
            raise errors.UsageError("queries of an impact index must be term weights; use the model that encoded it")
        queries.check(len(self.terms))
        index_checks.check_depth(k)
        hits = index_checks.no_hits(len(queries), k)
        size = max(lucene_search.threads(), lucene_search.HELD // k)
        for start in range(0, len(queries), size):
            part = queries[start : start + size]
            lists = lucene_search.ranked(self.lucene, self._in_java(part), len(part), k)
            rows = np.array([hit["lucene_docid"] for hits in lists for hit in hits], np.int64)
            lucene_search.fill(lists, rows, hits.rows[start : start + size], hits.scores[start : start + size])
        sums = np.rint(hits.scores)  # Anserini separates equal scores by less than 1
        return index_checks.in_order(hits.rows, (sums / self.backend.scale**2).astype(np.float32))

    def _in_java(self, queries: SparseRows) -> Any:
        """Convert queries to a Java list of maps from words to impacts."""
        from jnius import autoclass, find_javaclass

        impacts = self.backend.impacts(queries, "queries: ")
        pairs = list(zip(self.terms[queries.terms].tolist(), impacts.tolist(), strict=True))
        spans = zip(queries.offsets[:-1].tolist(), queries.offsets[1:].tolist(), strict=True)
        maps = [{term: impact for term, impact in pairs[begin:end] if impact} for begin, end in spans]
        return autoclass("com.fasterxml.jackson.databind.ObjectMapper")().readValue(
            json.dumps(maps), find_javaclass("java.util.ArrayList")
        )
