"""What a language model is asked to write of a passage, and the queries that stand in its answer."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import cycle, islice

from hardneg_judge.prompts import file_text
from hardneg_judge.verdicts import spoken

FORMS: Mapping[str, str] = {
    "question": "a question, as a person would ask it",
    "keywords": "two to six keywords, as typed into a search box",
    "claim": "a claim in one sentence, which the passage supports or refutes",
}
"""What the words of option `forms` ask for; any other text stands for itself."""
QUERIES = (
    "{examples}Passage:\n{passage}\n\nWrite one search query for each line of this list, which the passage answers:\n"
    "{forms}\n\nSomeone who has not seen the passage must understand each query: do not speak of a passage or a text. "
    "Answer with the queries and nothing else, each on a line of its own, which begins with its number and a full stop."
)
"""The built-in template."""
_LINE = re.compile(r"^[\s*#(\[>-]*(?:(?:query|question)\s*)?(\d{1,3})[\s*]*[.:)\]](?!\d)[\s*]*(.*)$", re.IGNORECASE)
_LONGEST = 2000  # characters of a query
_QUOTES = "\"'`*“”„«» \t"


def listed(forms: Sequence[str], start: int, count: int) -> str:
    """What is asked for, a numbered line a query: the forms one after another from `start`, again and again."""
    chosen = islice(cycle(forms), start, start + count)
    return "\n".join(f"{number}. {FORMS.get(form, form)}" for number, form in enumerate(chosen, 1))


def queries_in(answer: str, count: int) -> list[str]:
    """The queries of an answer by their numbers from 1 to `count`, each once.

    Queries of an unclear number, or of over 2,000 characters, are left out.

    Where one query is asked for, a single line needs no number. What stands before the end of a `<think>` block is no
    answer.
    """
    lines = [line for line in spoken(answer).splitlines() if line.strip() and len(line) <= _LONGEST]
    texts: dict[int, set[str]] = {}
    for match in filter(None, map(_LINE.match, lines)):
        if 1 <= int(match[1]) <= count and (text := match[2].strip(_QUOTES)):
            texts.setdefault(int(match[1]), set()).add(text)
    if not texts and count == 1 and len(lines) == 1 and not _LINE.match(lines[0]):
        texts[1] = {text for text in [lines[0].strip(_QUOTES)] if text}
    return list(dict.fromkeys(min(texts[number]) for number in sorted(texts) if len(texts[number]) == 1))


def examples_text(source: str) -> str:
    """The text of a file of examples, or the text itself. Raises ValueError where the file cannot be read."""
    return source if not source.strip() or source.lstrip().startswith("{") else file_text("examples", source)


@cache
def shown_examples(text: str) -> str:
    """Examples as a message has them, from JSON Lines with `passage` and `queries`.

    Raises:
        ValueError: a line is not of that form.
    """
    rows = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return "".join(_example(number, line) for number, line in rows)


def _example(number: int, line: str) -> str:
    try:
        row = json.loads(line)
        passage, queries = row["passage"], row["queries"]
        queries = [queries] if isinstance(queries, str) else queries
        if not queries or not all(isinstance(text, str) and text.strip() for text in (passage, *queries)):
            raise ValueError
    except (ValueError, TypeError, LookupError, RecursionError):
        problem = f"examples: line {number} is no JSON object with a `passage` and its `queries`: {line:.80}"
        raise ValueError(problem) from None
    numbered = "\n".join(f"{position}. {text}" for position, text in enumerate(queries, 1))
    return f"Passage:\n{passage}\n\nQueries:\n{numbered}\n\n"
