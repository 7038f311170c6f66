"""The words by which texts are compared, of all scripts."""

from collections.abc import Iterator

import regex

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Letters of scripts without blanks between words, in a set of regex and of RE2."""
_LETTER = regex.compile(f"[{UNSPACED}]")
_TERM = regex.compile(
    rf"(?<![\w--[{UNSPACED}]])[\w--[{UNSPACED}]]+|[{UNSPACED}]{{2}}|(?<![{UNSPACED}])[{UNSPACED}](?![{UNSPACED}])",
    regex.V1,
)


def unspaced(text: str) -> bool:
    """Whether a text has a letter of a script without blanks between words."""
    return _LETTER.search(text) is not None


def term_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each word by which texts are compared begins and ends, in characters.

    Words are runs of letters and digits; in scripts without blanks between words, every two letters in a row, so that
    they overlap, and a letter more or less shifts none of the others.
    """
    return (match.span() for match in _TERM.finditer(text, overlapped=unspaced(text)))


def terms(text: str) -> list[str]:
    """The words of `term_spans`, case aside."""
    words: list[str] = _TERM.findall(text.casefold(), overlapped=unspaced(text))
    return words
