"""How the fuzz tests run, and the one thing that they claim.

`HARDNEG_FUZZ_EXAMPLES=5000 pytest tests/fuzz` runs longer, with other examples each time.
"""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st

from hardneg.records import HardnegError

_WANTED = os.environ.get("HARDNEG_FUZZ_EXAMPLES")

fuzzed = settings(max_examples=int(_WANTED or 60), derandomize=not _WANTED, suppress_health_check=list(HealthCheck))

NASTY = ["../x", "/etc/passwd", "a\0b", "x" * 300, "", " ", "\ud800", "nan", "1e999", "9" * 400, "\ufeff", "é", "-1"]
NASTY += ["d1", "q1"]

texts = st.sampled_from(NASTY) | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just(10**400)
values = st.recursive(
    scalars, lambda part: st.lists(part, max_size=3) | st.dictionaries(texts, part, max_size=3), max_leaves=8
)


@st.composite
def mangled(draw: st.DrawFn, content: st.SearchStrategy[bytes]) -> bytes:
    """Bytes, some of them with a BOM, other line ends, a few bytes changed or cut off, or packed, whole or not."""
    data = draw(content)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        packed = gzip.compress(data, mtime=0)
        cut = [data[:place], data[:place] + b"\xff\x00" + data[place:], packed, packed[: max(2, place)]]
        data = draw(st.sampled_from([data, b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), *cut]))
    return data


def read_or_one_line(read: Callable[[], Any], lines: int = 1) -> bool:
    """Whether it was read; if not, the error must be of hardneg's, its message one line (a recipe's: many)."""
    try:
        read()
    except HardnegError as error:
        message = str(error)
        assert message and (lines > 1 or "\n" not in message), message
        return False
    return True


def paths_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
