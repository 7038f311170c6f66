"""What a language model has answered, as scores; of an answer that cannot be read nothing is guessed."""

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
_THOUGHT = "</think>"


def verdicts(answer: str, count: int, scale: Scale, numbered: bool) -> list[float | None]:
    """The score of each of `count` passages; None where the answer does not say it, or says two things.

    Numbered passages have a line each, but a single one may have a bare verdict. What stands before the end of a
    `<think>` block is no answer.
    """
    said = spoken(answer)
    bare = not numbered or (count == 1 and not any(match[2] for match in _lines(said)))
    return [_verdict(said, scale)] if bare else _by_number(said, count, scale)


def spoken(answer: str) -> str:
    """What an answer says, without what was thought before."""
    return answer.rpartition(_THOUGHT)[2].strip()


def _verdict(said: str, scale: Scale) -> float | None:
    """The word that it begins with, or else the only one, if no denial stands before; of no more than both nothing."""
    matches = list(_WORDS[scale].finditer(said))
    if matches and not _BOTH.fullmatch(said) and not said[: matches[0].start()].strip("\"'*`([# \t\n"):
        return _MEANING[matches[0][0].lower()]
    words = {match[0].lower() for match in matches}
    denied = matches and _DENIAL.search(said[: matches[-1].start()])
    return _MEANING[words.pop()] if len(words) == 1 and not denied else None


def _by_number(said: str, count: int, scale: Scale) -> list[float | None]:
    """From lines that begin with the number of a passage."""
    matches: dict[int, set[float | None]] = {}
    for match in _lines(said):
        matches.setdefault(int(match[1]), set()).add(_verdict(match[2], scale))
    by_number = (matches.get(number, {None}) for number in range(1, count + 1))
    return [next(iter(each)) if len(each) == 1 else None for each in by_number]


def _lines(said: str) -> Iterator[re.Match[str]]:
    """The lines that begin with a number."""
    return filter(None, map(_NUMBERED.match, said.splitlines()))
