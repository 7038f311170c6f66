"""What a language model is asked: templates, and the texts that are put into them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

Scale = Literal["yes-no", "grades"]
BEST = {"yes-no": 1.0, "grades": 3.0}
"""The highest score of each scale; the lowest is 0."""

_PARTS = ("query", "passages")
_PART = re.compile(r"\{(\w+)\}")
_QUESTION = {
    "yes-no": "Would someone who asks this query find what they look for in the passage?",
    "grades": (
        "How well does the passage serve someone who asks this query? 3: it holds the whole answer and little else; "
        "2: it holds an answer, in part or among other things; 1: it is on the subject without an answer; "
        "0: it is about something else."
    ),
}
_FORM = {"yes-no": "yes or no", "grades": "0, 1, 2 or 3"}


def built_in(scale: Scale, batch: int) -> str:
    """The template that is used where none is given, for one passage or for several at a time."""
    if batch == 1:
        form = f"Answer with {_FORM[scale]} and nothing else."
    else:
        form = f"Answer of each passage, on a line of its own: its number, a colon, and {_FORM[scale]}. Nothing else."
    head = "Passage" if batch == 1 else "Passages"
    return f"Query: {{query}}\n\n{head}:\n{{passages}}\n\n{_QUESTION[scale]}\n{form}"


IN_ORDER = (
    "Passages:\n{passages}\n\nQuery: {query}\n\nPut the passages in the order in which they serve someone who asks "
    "this query, the best one first. Answer with all their numbers and nothing else, in the form [2] > [1] > [3]."
)
"""The built-in template of a whole list."""


def template(prompt: str, otherwise: str, parts: Sequence[str] = _PARTS) -> str:
    """A template with these parts: from its text, or a file that has it; `otherwise` where nothing is given.

    Raises:
        ValueError: there is no such file, or a part is missing.
    """
    if not prompt:
        return otherwise
    text = prompt if any(f"{{{part}}}" in prompt for part in parts) else file_text("prompt", prompt)
    if lacking := [f"{{{part}}}" for part in parts if f"{{{part}}}" not in text]:
        raise ValueError(f"prompt: has no {' and no '.join(lacking)}: write where the texts go")
    return text


def file_text(option: str, name: str) -> str:
    """The text of the file that an option names. Raises ValueError where it cannot be read."""
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        content = {"prompt": "a template"}.get(option, option)
        raise ValueError(f"{option}: {name:.200} cannot be read ({reason}): give a file with {content}") from None


def filled(text: str, query: str, passages: Sequence[str], numbered: bool) -> str:
    """A template with its texts, and the numbers of the passages from 1. Braces within texts stay as they are.

    A numbered passage is one line, so that none can number others.
    """
    lines = (f"[{i}] {' '.join(text.splitlines())}" for i, text in enumerate(passages, 1))
    listed = "\n".join(lines) if numbered else passages[0]
    return put_in(text, {"query": query, "passages": listed})


def put_in(text: str, parts: Mapping[str, str]) -> str:
    """A template with these texts in place of their names in braces; other braces stay as they are."""
    return _PART.sub(lambda match: parts.get(match[1], match[0]), text)
