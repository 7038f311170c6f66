"""Sentences of a text, by its punctuation, and its words: to cut passages, and to write queries from them."""

import regex

from hardneg.records.text import UNSPACED

_END = regex.compile(
    r"""(?<=[.!?…]["'”’»)\]]{0,8})\s+(?=["'“‘«(\[]*[\p{Lu}\p{Lo}\p{N}])  # an end, then what begins with a capital
    |(?<=[。！？।॥۔؟።፧։។။][」』”]{0,8})\s*  # ends that stand for nothing else, with or without a blank
    |(?<=[\p{Thai}\p{Lao}][\p{M}\p{P}]?)[ ]+(?=\p{Thai}|\p{Lao})  # scripts whose only end is a blank
    |(?<!\s)\s*\n\s*\n\s*  # a blank line, looked for once in each stretch of white space""",
    regex.VERBOSE,
)
_NO_END = regex.compile(
    r"(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|Fig|Figs|Eq|Sec|No|vs|cf|approx|e\.g|i\.e|et al|\p{Lu})\.$"
)
WORD = rf"[{UNSPACED}]{{1,2}}\p{{P}}*|[^\s{UNSPACED}]+"
"""A word, for regex and for RE2."""
_WORD = regex.compile(WORD)

_LONGEST = 16
"""More characters than an abbreviation has with what stands before it."""


def sentences(text: str) -> list[str]:
    """The sentences of a text in their order, white space at their ends removed; together they are all of it.

    A sentence ends at `.`, `!`, `?` or `…` before a capital, a digit or a letter without case, at marks like `。` and
    `।`, at a blank between Thai or Lao letters, and at a blank line. Initials and abbreviations (`Dr.`) end none.
    """
    parts: list[str] = []
    start = 0
    for match in _END.finditer(text):
        end = match.start()
        if _NO_END.search(text[max(start, end - _LONGEST) : end]):
            continue
        if part := text[start:end].strip():
            parts.append(part)
            start = match.end()
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends, in characters.

    Words are what white space separates; in scripts without blanks between words, every two characters.
    """
    return [match.span() for match in _WORD.finditer(text)]
