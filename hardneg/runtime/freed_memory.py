"""Memory that is freed and soon allocated again: kept by the process meanwhile, where the C library lets it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # numbers of malloc.h
_KEEP = {_TRIM_THRESHOLD: -1, _TOP_PAD: 64 << 20, _MMAP_THRESHOLD: 1 << 30}
_USUAL = {_TRIM_THRESHOLD: 64 << 20, _TOP_PAD: 128 << 10, _MMAP_THRESHOLD: 32 << 20}  # where glibc's own rule ends up

_depth = 0


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Inside, large blocks that are freed stay with the process, to be reused; at the end they go back.

    By itself glibc gives a block of 32 MiB or more back to the system when it is freed. The next one of that size is
    then cleared page by page as it is first written, which for a transformer's passes on a CPU costs as much as some of
    its layers. Without glibc this does nothing.
    """
    global _depth
    try:
        library: Any = ctypes.CDLL(None)
    except (OSError, TypeError):
        library = None
    if not (hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt")):
        yield
        return
    _depth += 1
    _set(library, _KEEP)
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _set(library, _USUAL)
            library.malloc_trim(0)


def _set(library: Any, values: dict[int, int]) -> None:
    for name, value in values.items():
        library.mallopt(name, value)
