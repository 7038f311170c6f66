"""Prompt templates, the texts inserted into them, and parsers of answers."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

Scale = Literal["yes-no", "grades"]
BEST = {"yes-no": 1.0, "grades": 3.0}
"""The highest score of each scale; the lowest is 0."""
IN_ORDER = (
    "Passages:\n{passages}\n\nQuery: {query}\n\nPut the passages in the order in which they serve someone who asks "
    "this query, the best one first. Answer with all their numbers and nothing else, in the form [2] > [1] > [3]."
)
"""The built-in template that asks for the order of a list of passages."""
QUERIES = (
    "{examples}Passage:\n{passage}\n\nWrite one search query for each line of this list, which the passage answers:\n"
    "{forms}\n\nSomeone who has not seen the passage must understand each query: do not speak of a passage or a text. "
    "Answer with the queries and nothing else, each on a line of its own, which begins with its number and a full stop."
)
"""The built-in template that asks for queries about a passage."""
FORMS: Mapping[str, str] = {
    "question": "a question, as a person would ask it",
    "keywords": "two to six keywords, as typed into a search box",
    "claim": "a claim in one sentence, which the passage supports or refutes",
}
"""The texts that are sent for the built-in values of option `forms`. Any other value is sent unchanged."""
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
    """Return the default template that asks for verdicts on one passage or, if `batch` is above 1, on several."""
    if batch == 1:
        head, form = "Passage", f"Answer with {_FORM[scale]} and nothing else."
    else:
        form = f"Answer of each passage, on a line of its own: its number, a colon, and {_FORM[scale]}. Nothing else."
        head = "Passages"
    return f"Query: {{query}}\n\n{head}:\n{{passages}}\n\n{_QUESTION[scale]}\n{form}"


def template(prompt: str, otherwise: str, parts: Sequence[str] = ("query", "passages")) -> str:
    """Return the template that `prompt` contains or names as a file, or `otherwise` if empty. parts: required fields.

    Raises:
        ValueError: the file cannot be read, or a part is missing.
    """
    if not prompt:
        return otherwise
    text = prompt if any(f"{{{part}}}" in prompt for part in parts) else _file_text("prompt", prompt)
    if lacking := [f"{{{part}}}" for part in parts if f"{{{part}}}" not in text]:
        raise ValueError(f"prompt: missing {' and '.join(lacking)}; add what is missing where its text belongs")
    return text


def _file_text(option: str, name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ValueError(f"{option}: {name:.200} cannot be read ({reason}); use a text file") from None


def filled(text: str, query: str, passages: Sequence[str], numbered: bool) -> str:
    """Return the template filled with the query and the passages, numbered from 1; if not `numbered`, only the first.

    A numbered passage is put on one line, so that its text cannot contain numbered lines. Texts may contain braces.
    """
    lines = (f"[{i}] {' '.join(text.splitlines())}" for i, text in enumerate(passages, 1))
    return put_in(text, {"query": query, "passages": "\n".join(lines) if numbered else passages[0]})


def put_in(text: str, parts: Mapping[str, str]) -> str:
    """Return the template with each `{name}` replaced by its text in `parts`. Other braces are left unchanged."""
    return re.sub(r"\{(\w+)\}", lambda match: parts.get(match[1], match[0]), text)


def asked_forms(forms: Sequence[str], start: int, count: int) -> str:
    """Return a numbered list that describes `count` queries. It cycles through `forms` from position `start`."""
    chosen = islice(cycle(forms), start, start + count)
    return "\n".join(f"{number}. {FORMS.get(form, form)}" for number, form in enumerate(chosen, 1))


def examples_text(source: str) -> str:
    """Return examples as JSON Lines. source: the lines or a file name. Raises ValueError for an unreadable file."""
    return source if not source.strip() or source.lstrip().startswith("{") else _file_text("examples", source)


@cache
def shown_examples(text: str) -> str:
    """Return examples formatted for a message. text: JSON Lines with `passage` and `queries`.

    Raises:
        ValueError: a line is malformed.
    """
    shown = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            passage, queries = row["passage"], row["queries"]
            queries = [queries] if isinstance(queries, str) else queries
            if not queries or not all(isinstance(text, str) and text.strip() for text in (passage, *queries)):
                raise ValueError
        except (ValueError, TypeError, LookupError, RecursionError):
            problem = f"examples: line {number} is not a JSON object with `passage` and `queries`: {line:.80}"
            raise ValueError(problem) from None
        numbered = "\n".join(f"{position}. {text}" for position, text in enumerate(queries, 1))
        shown += f"Passage:\n{passage}\n\nQueries:\n{numbered}\n\n"
    return shown


_WORDS = {
    "yes-no": re.compile(r"\b(yes|no)\b", re.IGNORECASE),
    "grades": re.compile(r"(?<![\d.])(?<!(?<!\w)[-−])[0-3](?![\d.]*\d)"),
}
_MEANING = {"yes": 1.0, "no": 0.0, "0": 0.0, "1": 1.0, "2": 2.0, "3": 3.0}
_NUMBERED = re.compile(r"^\W*(?:passage\W+)?(\d+)\b(?:(?![-−]\d)\W)*(.*)$", re.IGNORECASE)
_BOTH = re.compile(r"(?:\W*\b(?:yes|no|or|and)\b)+\W*", re.IGNORECASE)
_DENIAL = re.compile(r"\b(?:not|never|cannot|nor|neither|without|hardly)\b|n['’]t\b", re.IGNORECASE)
_QUERY = re.compile(r"^[\s*#(\[>-]*(?:(?:query|question)\s*)?(\d{1,3})[\s*]*[.:)\]](?!\d)[\s*]*(.*)$", re.IGNORECASE)
_LONGEST = 2000  # characters of a query
_QUOTES = "\"'`*“”„«» \t"


def _spoken(answer: str) -> str:
    """Return the answer without its reasoning."""
    return answer.rpartition("</think>")[2].strip()


def verdicts(answer: str, count: int, scale: Scale, numbered: bool) -> list[float | None]:
    """Return the score of each of `count` passages, or None where an answer has no verdict or contradictory ones.

    If `numbered`, each passage needs a numbered line, but a single passage may have a bare verdict. Text before the end
    of a `<think>` block is ignored.
    """
    spoken = _spoken(answer)
    bare = not numbered or (count == 1 and not any(match[2] for match in _lines(spoken)))
    if bare:
        return [_verdict(spoken, scale)]
    matches: dict[int, set[float | None]] = {}
    for match in _lines(spoken):
        matches.setdefault(int(match[1]), set()).add(_verdict(match[2], scale))
    by_number = (matches.get(number, {None}) for number in range(1, count + 1))
    return [next(iter(each)) if len(each) == 1 else None for each in by_number]


def _lines(spoken: str) -> Iterator[re.Match[str]]:
    return filter(None, map(_NUMBERED.match, spoken.splitlines()))


def _verdict(spoken: str, scale: Scale) -> float | None:
    """Return the score of the first word, or else of the only verdict unless a denial precedes it; None if unclear."""
    matches = list(_WORDS[scale].finditer(spoken))
    if matches and not _BOTH.fullmatch(spoken) and not spoken[: matches[0].start()].strip("\"'*`([# \t\n"):
        return _MEANING[matches[0][0].lower()]
    words = {match[0].lower() for match in matches}
    denied = matches and _DENIAL.search(spoken[: matches[-1].start()])
    return _MEANING[words.pop()] if len(words) == 1 and not denied else None


def permutation(answer: str, count: int) -> list[int]:
    """Return the numbers of the passages, from 0, in the order of an answer; empty if it lists none.

    Unknown and repeated numbers are ignored; missing passages follow in their original order.
    """
    numbers = (int(number) - 1 for number in re.findall(r"\d+", _spoken(answer)) if len(number) < 10)
    named = dict.fromkeys(number for number in numbers if 0 <= number < count)
    return [*named, *(number for number in range(count) if number not in named)] if named else []


def queries_in(answer: str, count: int) -> list[str]:
    """Return the distinct queries in an answer, in the order of their numbers. Numbers above `count` are ignored.

    Queries with ambiguous numbers or over 2,000 characters are dropped. If one query is requested, a single line needs
    no number. Text before the end of a `<think>` block is ignored.
    """
    lines = [line for line in _spoken(answer).splitlines() if line.strip() and len(line) <= _LONGEST]
    texts: dict[int, set[str]] = {}
    for match in filter(None, map(_QUERY.match, lines)):
        if 1 <= int(match[1]) <= count and (text := match[2].strip(_QUOTES)):
            texts.setdefault(int(match[1]), set()).add(text)
    if not texts and count == 1 and len(lines) == 1 and not _QUERY.match(lines[0]):
        texts[1] = {text for text in [lines[0].strip(_QUOTES)] if text}
    return list(dict.fromkeys(min(texts[number]) for number in sorted(texts) if len(texts[number]) == 1))
