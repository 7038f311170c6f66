"""Check the lines that open an index: they start a fitting Java first, and run in a process of their own."""

import subprocess
import sys

from hardneg.indexes.kernels.lucene.java import OLDEST, find_java, first_java, starts_alone
from hardneg.records.wording import counted

_VECTOR = "searcher.search(vector"
_START = """\
from hardneg.plugin import start_java

start_java()  # {why}

"""


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


def check(text: str) -> str | None:
    """Run the lines of an index and return the outcome, which begins with `fails` where they do; None without lines."""
    if not _runs(text):
        return None
    lines = [line for line in text.splitlines() if _VECTOR not in line]
    lines.append("print(len(hits))" if _VECTOR not in text else "print(end='')")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    if done.returncode:
        messages = [line for line in done.stderr.splitlines() if line.strip()]
        return f"fails: {messages[-1].strip() if messages else f'exit code {done.returncode}'}"
    *_, last = done.stdout.split() or [""]
    return f"runs: {counted(int(last), 'hit')}" if last else "opens; not searched, as it takes vectors"


def _runs(text: str) -> bool:
    return "searcher = " in text
