"""What a language model has answered: scores, an order, or queries; of what cannot be read nothing is guessed."""

import re
from collections.abc import Iterator

from hardneg_judge.prompts import Scale

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
    """What an answer says, without what was thought before."""
    return answer.rpartition("</think>")[2].strip()


def verdicts(answer: str, count: int, scale: Scale, numbered: bool) -> list[float | None]:
    """The score of each of `count` passages; None where the answer does not say it, or says two things.

    Numbered passages have a line each, but a single one may have a bare verdict. What stands before the end of a
    `<think>` block is no answer.
    """
    said = _spoken(answer)
    bare = not numbered or (count == 1 and not any(match[2] for match in _lines(said)))
    if bare:
        return [_verdict(said, scale)]
    matches: dict[int, set[float | None]] = {}
    for match in _lines(said):
        matches.setdefault(int(match[1]), set()).add(_verdict(match[2], scale))
    by_number = (matches.get(number, {None}) for number in range(1, count + 1))
    return [next(iter(each)) if len(each) == 1 else None for each in by_number]


def _lines(said: str) -> Iterator[re.Match[str]]:
    return filter(None, map(_NUMBERED.match, said.splitlines()))


def _verdict(said: str, scale: Scale) -> float | None:
    """The word that it begins with, or else the only one, if no denial stands before; of no more than both nothing."""
    matches = list(_WORDS[scale].finditer(said))
    if matches and not _BOTH.fullmatch(said) and not said[: matches[0].start()].strip("\"'*`([# \t\n"):
        return _MEANING[matches[0][0].lower()]
    words = {match[0].lower() for match in matches}
    denied = matches and _DENIAL.search(said[: matches[-1].start()])
    return _MEANING[words.pop()] if len(words) == 1 and not denied else None


def permutation(answer: str, count: int) -> list[int]:
    """The order, from 0, in which an answer names passages 1 to `count`; empty where it names none of them.

    Numbers of no passage, and those that come again, are passed over; passages that are left out follow in their order.
    """
    numbers = (int(number) - 1 for number in re.findall(r"\d+", _spoken(answer)) if len(number) < 10)
    named = dict.fromkeys(number for number in numbers if 0 <= number < count)
    return [*named, *(number for number in range(count) if number not in named)] if named else []


def queries_in(answer: str, count: int) -> list[str]:
    """The queries of an answer by their numbers from 1 to `count`, each once.

    Queries of an unclear number, or of over 2,000 characters, are left out.

    Where one query is asked for, a single line needs no number. What stands before the end of a `<think>` block is no
    answer.
    """
    lines = [line for line in _spoken(answer).splitlines() if line.strip() and len(line) <= _LONGEST]
    texts: dict[int, set[str]] = {}
    for match in filter(None, map(_QUERY.match, lines)):
        if 1 <= int(match[1]) <= count and (text := match[2].strip(_QUOTES)):
            texts.setdefault(int(match[1]), set()).add(text)
    if not texts and count == 1 and len(lines) == 1 and not _QUERY.match(lines[0]):
        texts[1] = {text for text in [lines[0].strip(_QUOTES)] if text}
    return list(dict.fromkeys(min(texts[number]) for number in sorted(texts) if len(texts[number]) == 1))
