"""Check the lines that open an index: they start a fitting Java first, and run in a process of their own."""

import subprocess
import sys
from dataclasses import dataclass

from hardneg.indexes.kernels.lucene.java import OLDEST, find_java, first_java, starts_alone
from hardneg.records.wording import counted

_VECTOR = "searcher.search(vector"
_START = """\
from hardneg.plugin import start_java

start_java()  # {why}

"""


@dataclass(frozen=True)
class CheckedLines:
    """The result of the lines of an index: the number of hits, None where they only open it; or a failure."""

    hits: int | None = None
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"fails: {self.failure}"
        return "opens; not searched, as it takes vectors" if self.hits is None else f"runs: {counted(self.hits, 'hit')}"


def with_java(text: str) -> str:
    """The lines, after those that start Java where Pyserini would start none that fits.

    Raises:
        MissingDependency: there is none that fits.
    """
    if not _runs(text) or starts_alone():
        return text
    chosen, first = find_java(), first_java()
    if first is None:
        why = f"Java {chosen.version} in {chosen.home}: none is on the PATH"
    else:
        lacks = "" if first.version < OLDEST else " without jdk.incubator.vector"
        why = f"Java {chosen.version} in {chosen.home}; Pyserini alone would start {first.version}{lacks}"
    return _START.format(why=why) + text


def check(text: str) -> CheckedLines | None:
    """Runs the lines of an index; None where there are none to run."""
    if not _runs(text):
        return None
    lines = [line for line in text.splitlines() if _VECTOR not in line]
    lines.append("print(len(hits))" if _VECTOR not in text else "print(end='')")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    if done.returncode:
        messages = [line for line in done.stderr.splitlines() if line.strip()]
        return CheckedLines(failure=messages[-1].strip() if messages else f"exit code {done.returncode}")
    *_, last = done.stdout.split() or [""]
    return CheckedLines(int(last) if last else None)


def _runs(text: str) -> bool:
    return "searcher = " in text
