"""Freed memory stays with the process where it is asked to, and goes back at the end."""

import platform
import resource
from pathlib import Path

import numpy as np
import pytest

from hardneg.runtime import freed_memory
from hardneg.runtime.freed_memory import freed_memory_kept

MIB = 1 << 20


def fill() -> int:
    """Page faults of writing 64 MiB that were asked for anew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.full(64 * MIB, 1, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the rule that is changed")
def test_blocks_are_cleared_once_inside_and_given_back_at_the_end() -> None:
    pages = 64 * MIB // resource.getpagesize()
    fill()
    if fill() < min(pages, 16):  # huge pages may make it few, but not none
        pytest.skip("this process keeps the memory that it has freed anyway")
    with freed_memory_kept():
        fill()
        with freed_memory_kept():
            assert fill() < pages // 100
        assert fill() < pages // 100
        held = resident()
    assert resident() < held - 32 * MIB


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: object())
    with freed_memory_kept():
        assert freed_memory._depth == 0
