"""Choices of ways to compute that round otherwise: what a stage begins with it keeps, on another machine too.

They are reported in the manifests of the stages that used them, and kept in the checkpoints of a training.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hardneg.runtime import from_whoever_asks_first
from hardneg.store.atomic_write import replace_text

CHOICE = "choice/"
"""The prefix of a subject when several processes share one choice."""

_kept: dict[str, str] = {}
_listening: list[tuple[dict[str, str], Path | None]] = []


def choose(subject: str, best: str, *others: str) -> str:
    """Return the way kept for a subject, if it is one of these, else the best; the process that asks first decides."""
    chosen = _kept.get(subject, "")
    if chosen not in (best, *others):
        chosen = from_whoever_asks_first(CHOICE + subject, lambda: best)
    for choices, file in _listening:
        if choices.get(subject) != chosen:
            choices[subject] = chosen
            if file is not None:
                replace_text(file, json.dumps({CHOICE + name: way for name, way in choices.items()}, indent=1) + "\n")
    return chosen


@contextmanager
def noted(kept: Mapping[str, str] | None = None, file: Path | None = None) -> Iterator[dict[str, str]]:
    """Collect the choices made in the block, by subject; those in `kept` take precedence.

    file: keeps them for a resumed run; those that an earlier run left there count as kept.
    """
    before, choices = dict(_kept), dict(kept or {})
    with suppress(OSError, TypeError, ValueError):
        left = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
        choices |= {name.removeprefix(CHOICE): str(way) for name, way in dict(left).items()}
    _kept.update(choices)
    _listening.append((choices, file))
    try:
        yield choices
    finally:
        _listening[:] = [other for other in _listening if other[0] is not choices]
        _kept.clear()
        _kept.update(before)


def cache_folder() -> Path:
    """Return the folder of what is kept between runs, by the XDG rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardneg"
