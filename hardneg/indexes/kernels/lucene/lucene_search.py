"""Lucene indexes searched by Anserini: opened, searched with many queries at a time, their hits as rows.

Only the Java library of Pyserini is used: none of its many requirements is imported.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.lucene.java import start_java
from hardneg.records import ArtifactError

HELD = 1 << 15
"""Hits whose stored texts are in memory at a time."""

_LATER = "indexCreatedVersionMajor is in the future"
_CLAUSES = 1 << 20  # the longest query in different words; Lucene's own limit is 1,024


def threads() -> int:
    """Return how many queries Anserini answers at a time."""
    return min(16, os.cpu_count() or 1)


def open_lucene(path: Path, searcher: str) -> Any:
    """The index in folder `path` by one of Anserini's searchers, such as `SimpleSearcher`.

    Raises:
        MissingDependency: without Pyserini or Java.
        ArtifactError: where `path` holds no Lucene index.
    """
    start_java()
    from jnius import JavaException, autoclass

    autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_CLAUSES)
    try:
        return autoclass(f"io.anserini.search.{searcher}")(str(path))
    except JavaException as error:
        reason = java_reason(error)
        later = "a later Lucene wrote it: open it with Pyserini 2, or " if _LATER in reason else ""
        raise ArtifactError(f"{path}: not a Lucene index that can be read ({reason}): {later}build it again") from error


def ranked(lucene: Any, queries: Any, count: int, k: int) -> list[list[dict[str, Any]]]:
    """The hits of each of `count` queries, a Java list, best first.

    They are fetched from Java as one JSON text: a call a hit would be slow.
    """
    from jnius import autoclass, find_javaclass

    names = autoclass("java.util.ArrayList")()
    for i in range(count):
        names.add(str(i))
    results = lucene.batch_search(queries, names, k, threads())
    mapper = autoclass("com.fasterxml.jackson.databind.ObjectMapper")()
    true = autoclass("java.lang.Boolean")("true")  # Python's True would arrive as an Integer
    stored = mapper.configOverride(find_javaclass("org.apache.lucene.document.Document"))
    stored.setIsIgnoredType(true)
    mapper.getFactory().enable(autoclass("com.fasterxml.jackson.core.JsonGenerator$Feature").ESCAPE_NON_ASCII)
    lists = json.loads(mapper.writeValueAsString(results))
    return [lists.get(str(i), []) for i in range(count)]


def java_reason(error: Any) -> str:
    """Return the first line of a `jnius.JavaException`."""
    return str(error).splitlines()[0].removeprefix("JVM exception occurred: ")


def fill(
    lists: list[list[dict[str, Any]]], hit_rows: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Write lists of hits, whose rows in their order are `hit_rows`, over the pads in rows and scores [Q, k]."""
    filled = np.arange(rows.shape[1]) < np.array([len(hits) for hits in lists])[:, None]
    rows[filled] = hit_rows
    scores[filled] = [hit["score"] for hits in lists for hit in hits]
