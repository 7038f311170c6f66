"""The one place where text leaves for the terminal: what could steer it is made visible."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 but tab and newline, orders to turn the direction of writing, and bytes that are no text."""


def visible(text: str) -> str:
    r"""The text with each character that could steer a terminal as an escape, such as `\x1b`."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


@contextmanager
def stream(name: str) -> Iterator[None]:
    """Names the stream in what the system says of it, such as that the disk behind it is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


def say(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Prints one text, on stderr if it is not the answer itself."""
    with stream("standard error" if err else "standard output"):
        typer.echo(visible(str(text)), err=err, nl=nl)  # noqa: TID251


def say_json(content: Any, indent: int | None = None) -> None:
    """Prints JSON and nothing else; it reads as if nothing had been escaped."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)
    with stream("standard output"):
        typer.echo(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if _STEERING.search(text) else text)  # noqa: TID251


def say_answer(content: Any, lines: Iterable[str], as_json: bool) -> None:
    """Prints an answer: as JSON, or in lines for a person."""
    if as_json:
        return say_json(content, indent=1)
    for line in lines:
        say(line)


def aligned(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each pair; what stands second begins in the same column."""
    known = list(pairs)
    width = max((len(first) for first, _ in known), default=0)
    return (f"{first:<{width}}  {second}" for first, second in known)
