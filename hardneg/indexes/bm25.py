"""BM25 by Anserini, the Java library in Pyserini: a Lucene index that Pyserini's `LuceneSearcher` opens.

The index has the collection's own document ids. Scores are those of `LuceneSearcher`: rounded to four decimals, equal
ones set apart in the order of ids. Of Pyserini the library alone is used: none of its many requirements is imported.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.errors import ArtifactError, UsageError
from hardneg.indexes.java import start_java
from hardneg.indexes.validation import check_depth, in_order, no_hits
from hardneg.progress import Progress
from hardneg.protocols import RowLookup
from hardneg.types import Encoded, Hits, SparseRows, TokenVectors
from hardneg.wording import counted

_BATCH = 2048
_SESSION = 1 << 28  # characters after which Lucene writes what it holds in memory to the disk
_BLANKS = "".join(map(chr, range(33)))  # what Lucene takes for white space where it looks for empty documents
_HELD = 1 << 15  # hits whose stored texts are in memory at a time
_WORDS = 1 << 20  # the longest query in different words; Lucene's own limit is 1,024


@dataclass(frozen=True)
class Bm25:
    """Lucene's BM25.

    Args:
        k1: how slowly a repeated word stops to count; used when searching.
        b: how much a document's length counts against it, from 0 to 1; used when searching.
        language: ISO 639-1 code of the texts; decides stemming and stop words when building and searching.
    """

    k1: float = 0.9
    b: float = 0.4
    language: str = "en"

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "lucene"
    input: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise UsageError(f"bm25: k1 is {self.k1} and b is {self.b}: k1 must be at least 0, and b between 0 and 1")

    def build(self, source: Iterable[tuple[str, str]], path: Path, progress: Progress) -> int:
        """Indexes pairs (doc_id, contents) as they come, with their text; returns the number of documents.

        Lucene leaves out documents whose contents are blank; their number is noted.

        Raises:
            MissingDependency: without Pyserini or Java.
            ArtifactError: where Lucene refused a document or holds another number in the end.
        """
        indexed, blank, pairs = 0, 0, iter(source)
        writer = self._writer(path, append=False)
        try:
            held = 0
            with progress.task("index", None, "passages") as task:
                while batch := list(islice(pairs, _BATCH)):
                    records = [json.dumps({"id": key, "contents": text}) for key, text in batch if text.strip(_BLANKS)]
                    _add(writer, records, path)
                    indexed, blank = indexed + len(records), blank + len(batch) - len(records)
                    held += sum(map(len, records))
                    if held > _SESSION:
                        writer.close()
                        writer, held = self._writer(path, append=True), 0
                    task.advance(len(batch))
        finally:
            writer.close(True)
        if blank:
            progress.note(
                f"bm25: {counted(blank, 'document without text is', 'documents without text are')} not in the index"
            )
        found = _open(path).get_total_num_docs()
        if found != indexed:
            raise ArtifactError(
                f"{path}: Lucene holds {found} of {indexed} documents: is the disk full? Build it again"
            )
        return indexed

    def _writer(self, path: Path, append: bool) -> Any:
        start_java()
        from jnius import autoclass

        known = autoclass("io.anserini.analysis.AnalyzerMap").analyzerMap
        if self.language != "en" and not known.containsKey(self.language):
            names = ", ".join(sorted(["en", *known.keySet().toArray()]))
            raise UsageError(f"bm25: language {self.language!r} is unknown to Lucene here: use one of {names}")
        arguments = ["-input", "", "-collection", "JsonCollection", "-index", str(path), "-storeRaw"]
        arguments += ["-language", self.language, "-threads", str(_threads())] + ["-append"] * append
        return autoclass("io.anserini.index.SimpleIndexer")(arguments)

    def open(self, path: Path, rows: RowLookup) -> "Bm25Searcher":
        """The Lucene index in folder `path`; rows: int64 row numbers of document ids, -1 for unknown ones.

        Raises:
            MissingDependency: without Pyserini or Java.
            ArtifactError: where `path` holds no Lucene index.
        """
        searcher = _open(path)
        searcher.set_bm25(float(self.k1), float(self.b))
        if self.language != "en":
            searcher.set_language(self.language)
        return Bm25Searcher(path, searcher, rows)


@dataclass(frozen=True)
class Bm25Searcher:
    """An opened Lucene index; `lucene` is Anserini's `SimpleSearcher`."""

    path: Path
    lucene: Any
    rows: RowLookup

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The best k documents of each text that share a word with it; none for an empty text.

        Raises:
            UsageError: for vectors, or k below 1.
            ArtifactError: where the index holds a document that `rows` does not know.
        """
        if isinstance(queries, np.ndarray | SparseRows | TokenVectors):
            raise UsageError("a BM25 index searches with texts, not vectors")
        check_depth(k)
        hits = no_hits(len(queries), k)
        size = max(_threads(), _HELD // k)
        for start in range(0, len(queries), size):
            lists = _ranked(self.lucene, queries[start : start + size], k)
            self._fill(lists, hits.rows[start : start + size], hits.scores[start : start + size])
        return in_order(hits.rows, hits.scores)

    def _fill(self, lists: list[list[dict[str, Any]]], rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        found = self.rows([hit["docid"] for hits in lists for hit in hits])
        if (found < 0).any():
            raise ArtifactError(f"{self.path}: holds documents that are not in the corpus: build the index again")
        counts = np.array([len(hits) for hits in lists])
        filled = np.arange(rows.shape[1]) < counts[:, None]
        rows[filled] = found
        scores[filled] = [hit["score"] for hits in lists for hit in hits]


def _threads() -> int:
    return min(16, os.cpu_count() or 1)


def _add(writer: Any, records: list[str], path: Path) -> None:
    added = writer.addRawDocuments(records) if records else 0
    if added != len(records):
        raise ArtifactError(f"{path}: Lucene took {added} of {len(records)} documents of a batch: is the disk full?")


def _open(path: Path) -> Any:
    start_java()
    from jnius import JavaException, autoclass

    autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_WORDS)
    try:
        return autoclass("io.anserini.search.SimpleSearcher")(str(path))
    except JavaException as error:
        reason = str(error).splitlines()[0].removeprefix("JVM exception occurred: ")
        raise ArtifactError(f"{path}: not a Lucene index that can be read ({reason}): build it again") from error


def _ranked(lucene: Any, texts: Sequence[str], k: int) -> list[list[dict[str, Any]]]:
    """The hits of each text, best first, fetched from Java as one JSON text: a call a hit would be slow."""
    from jnius import autoclass, find_javaclass

    array_list = autoclass("java.util.ArrayList")
    queries, names = array_list(), array_list()
    for i, text in enumerate(texts):
        queries.add(text.replace("\0", " "))
        names.add(str(i))
    found = lucene.batch_search(queries, names, k, _threads())
    mapper = autoclass("com.fasterxml.jackson.databind.ObjectMapper")()
    true = autoclass("java.lang.Boolean")("true")  # Python's True would arrive as an Integer
    stored = mapper.configOverride(find_javaclass("org.apache.lucene.document.Document"))
    stored.setIsIgnoredType(true)
    mapper.getFactory().enable(autoclass("com.fasterxml.jackson.core.JsonGenerator$Feature").ESCAPE_NON_ASCII)
    lists = json.loads(mapper.writeValueAsString(found))
    return [lists.get(str(i), []) for i in range(len(texts))]
