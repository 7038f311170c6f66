"""BM25 by Anserini, the Java library in Pyserini: a Lucene index that Pyserini's `LuceneSearcher` opens.

The index has the collection's own document ids. Scores are those of `LuceneSearcher`: rounded to four decimals, equal
ones set apart in the order of ids.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hardneg.indexes.kernels import checks
from hardneg.indexes.kernels.lucene import HELD, fill, open_lucene, ranked, start_java, threads
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Encoded, EncodedRows, Hits, UsageError, counted
from hardneg.records.text import ENGLISH, language_of
from hardneg.runtime import Progress

_BATCH = 2048
_SESSION = 1 << 28  # characters after which Lucene writes what it holds in memory to the disk
_SEEN = 500  # documents by which the language is guessed, and the characters of each
_LANGUAGE = "language"  # the file in the index that tells it
AUTO = "auto"
_BLANKS = "".join(map(chr, range(33)))  # white space by which Lucene detects empty documents


@dataclass(frozen=True)
class Bm25:
    """Lucene's BM25.

    Args:
        k1: term frequency saturation; used when searching.
        b: length normalization, from 0 to 1; used when searching.
        language: ISO 639-1 code of the texts, or `auto`, by the first of them; decides words, stemming and stop words
            when building and searching.
    """

    k1: float = 0.9
    b: float = 0.4
    language: str = ENGLISH

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "lucene"
    input: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise UsageError(f"bm25: k1 is {self.k1} and b is {self.b}: k1 must be at least 0, and b between 0 and 1")

    def build(self, source: Iterable[tuple[str, str]], path: Path, progress: Progress) -> int:
        """Index pairs (doc_id, contents) in their order, with their text; return the number of documents.

        Lucene leaves out documents whose contents are blank; their number is reported.

        Raises:
            MissingDependency: without Pyserini or Java.
            ArtifactError: where Lucene refused a document or holds another number in the end.
        """
        indexed, blank, held, pairs = 0, 0, 0, iter(source)
        first = list(islice(pairs, _SEEN))
        guess, pairs = language_of(text[:_SEEN] for _, text in first), chain(first, pairs)
        language = guess if self.language == AUTO else self.language
        if self.language == AUTO:
            progress.note(f"bm25: language {guess}, by the letters and words of the first texts")
        elif self.language == ENGLISH != guess:
            progress.note(f"bm25: the texts look like language {guess}, and are indexed as {ENGLISH}: set `language`")
        writer = _writer(path, language, append=False)
        try:
            with progress.task("index", None, "passages") as task:
                while batch := list(islice(pairs, _BATCH)):
                    records = [json.dumps({"id": key, "contents": text}) for key, text in batch if text.strip(_BLANKS)]
                    added = writer.addRawDocuments(records) if records else 0
                    if added != len(records):
                        message = f"{path}: Lucene took {added} of {len(records)} documents of a batch"
                        raise ArtifactError(f"{message}: is the disk full?")
                    indexed, blank = indexed + len(records), blank + len(batch) - len(records)
                    held += sum(map(len, records))
                    if held > _SESSION:
                        writer.close()
                        writer, held = _writer(path, language, append=True), 0
                    task.advance(len(batch))
        finally:
            writer.close(True)
        if self.language == AUTO:
            (path / _LANGUAGE).write_text(language, "utf-8")
        if blank:
            left_out = counted(blank, "document without text is", "documents without text are")
            progress.note(f"bm25: {left_out} not in the index")
        total = open_lucene(path, "SimpleSearcher").get_total_num_docs()
        if total != indexed:
            raise ArtifactError(f"{path}: Lucene holds {total} of {indexed} documents: is the disk full? Build again")
        return indexed

    def open(self, path: Path, rows: RowLookup) -> "Bm25Searcher":
        """The Lucene index in folder `path`; rows: int64 row numbers of document ids, -1 for unknown ones.

        Raises:
            MissingDependency: without Pyserini or Java.
            ArtifactError: where `path` holds no Lucene index.
        """
        searcher = open_lucene(path, "SimpleSearcher")
        searcher.set_bm25(float(self.k1), float(self.b))
        kept = path / _LANGUAGE
        language = kept.read_text("utf-8") if self.language == AUTO and kept.is_file() else self.language
        if language not in (AUTO, ENGLISH):
            searcher.set_language(language)
        return Bm25Searcher(path, searcher, rows)


@dataclass(frozen=True)
class Bm25Searcher:
    """An opened Lucene index; `lucene` is Anserini's `SimpleSearcher`."""

    path: Path
    lucene: Any
    rows: RowLookup

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the best k documents of each text that share a word with it; none for an empty text.

        Raises:
            UsageError: for vectors, or k below 1.
            ArtifactError: where the index holds a document that `rows` does not know.
        """
        if isinstance(queries, np.ndarray | EncodedRows):
            raise UsageError("a BM25 index searches with texts, not vectors")
        from jnius import autoclass

        checks.check_depth(k)
        hits = checks.no_hits(len(queries), k)
        size = max(threads(), HELD // k)
        for start in range(0, len(queries), size):
            texts = queries[start : start + size]
            in_java = autoclass("java.util.ArrayList")()
            for text in texts:
                in_java.add(text.replace("\0", " "))
            lists = ranked(self.lucene, in_java, len(texts), k)
            rows = self.rows([hit["docid"] for hits in lists for hit in hits])
            if (rows < 0).any():
                raise ArtifactError(f"{self.path}: holds documents that are not in the corpus: build the index again")
            fill(lists, rows, hits.rows[start : start + size], hits.scores[start : start + size])
        return checks.in_order(hits.rows, hits.scores)


def _writer(path: Path, language: str, append: bool) -> Any:
    start_java()
    from jnius import autoclass

    known = autoclass("io.anserini.analysis.AnalyzerMap").analyzerMap
    if language != ENGLISH and not known.containsKey(language):
        names = ", ".join(sorted([AUTO, ENGLISH, *known.keySet().toArray()]))
        raise UsageError(f"bm25: language {language!r} is unknown to Lucene here: use one of {names}")
    arguments = ["-input", "", "-collection", "JsonCollection", "-index", str(path), "-storeRaw"]
    arguments += ["-language", language, "-threads", str(threads())] + ["-append"] * append
    return autoclass("io.anserini.index.SimpleIndexer")(arguments)
