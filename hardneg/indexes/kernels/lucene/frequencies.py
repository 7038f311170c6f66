"""Writes Lucene indexes of documents in Anserini's form, from terms with frequencies in place of texts.

Lucene reads each frequency as a number: in Anserini's own input, a term is repeated as often as it counts.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.lucene.java import java_reason, start_java
from hardneg.records.errors import ArtifactError

APART, BEHIND_TERM = "\ue000", "\ue001"
"""The separators of terms, and of a term from its frequency: characters of no script."""

MOST = 2**31 - 1
"""The largest sum of a document's frequencies in Lucene."""

_BUFFER = 256.0  # MiB that Lucene holds before it writes to the disk


def frequency_texts(
    offsets: NDArray[np.int64], terms: NDArray[np.object_], frequencies: NDArray[np.int64]
) -> list[str]:
    """The text of each document that Lucene reads its terms and frequencies from; those of 0 are left out.

    A document without any has a text too, for Anserini takes no blank one.

    Args:
        offsets: int64 [n + 1], where each document's terms begin.
        terms: str [m], each with `BEHIND_TERM` at its end.
        frequencies: int64 [m].
    """
    kept = frequencies > 0
    bounds = np.concatenate([[0], np.cumsum(kept)])[offsets].tolist()
    numbers, inverse = np.unique(frequencies[kept], return_inverse=True)
    pieces = (terms[kept] + numbers.astype(str).astype(object)[inverse]).tolist()
    return [APART + APART.join(pieces[begin:end]) for begin, end in pairwise(bounds)]


class FrequencyWriter:
    """Writes the Lucene index in a folder; after an error the index must not be used.

    Documents keep their order: segments are merged with their neighbours only.
    """

    def __init__(self, folder: Path) -> None:
        """Begin an index, in place of the folder's content.

        Raises:
            MissingDependency: without Pyserini or Java.
        """
        start_java()
        from jnius import autoclass

        lucene = "org.apache.lucene"
        builder = autoclass(f"{lucene}.analysis.custom.CustomAnalyzer").builder()
        builder.withTokenizer("simplePatternSplit", _java_map("pattern", APART))
        builder.addTokenFilter("delimitedTermFrequency", _java_map("delimiter", BEHIND_TERM))
        config = autoclass(f"{lucene}.index.IndexWriterConfig")(builder.build())
        config.setOpenMode(autoclass(f"{lucene}.index.IndexWriterConfig$OpenMode").CREATE)
        config.setSimilarity(autoclass("io.anserini.search.similarity.ImpactSimilarity")())
        config.setMergePolicy(autoclass(f"{lucene}.index.LogByteSizeMergePolicy")())
        config.setRAMBufferSizeMB(_BUFFER)
        config.setUseCompoundFile(False)
        self.folder = folder
        where = autoclass("java.io.File")(str(folder)).toPath()
        self._writer = autoclass(f"{lucene}.index.IndexWriter")(
            autoclass(f"{lucene}.store.FSDirectory").open(where), config
        )
        self._document = autoclass("io.anserini.collection.JsonCollection$Document")
        self._fields = autoclass("io.anserini.index.generator.DefaultLuceneDocumentGenerator")()

    def add(self, documents: Iterable[tuple[str, str]]) -> None:
        """Adds pairs of a document's id and its text of frequencies.

        Raises:
            ArtifactError: Lucene cannot write them.
        """
        from jnius import JavaException

        try:
            for doc_id, text in documents:
                document = self._document.fromFields(doc_id, text)
                self._writer.addDocument(self._fields.createDocument(document))
        except JavaException as error:
            raise _refused(self.folder, error) from error

    def __enter__(self) -> "FrequencyWriter":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from jnius import JavaException

        if error_type is not None:
            with suppress(JavaException):
                self._writer.rollback()
            return
        try:
            self._writer.close()
        except JavaException as refused:
            raise _refused(self.folder, refused) from refused


def _refused(folder: Path, error: Any) -> ArtifactError:
    return ArtifactError(f"{folder}: Lucene cannot write the index ({java_reason(error)}): is the disk full?")


def _java_map(name: str, value: str) -> Any:
    from jnius import autoclass

    mapping = autoclass("java.util.HashMap")()
    mapping.put(name, value)
    return mapping
