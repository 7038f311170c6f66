"""Texts as a page shows them: nothing in them steers it, long ones are cut, and terms of the query are marked."""

import re
from collections.abc import Collection
from typing import NamedTuple

from markupsafe import Markup, escape

from hardneg.records.terms import term_spans
from hardneg.records.terms import terms as _words

SHOWN = 700
"""Characters of a text that are shown at once."""
OPENED = 20_000
"""Characters of a text on a page; the page shows the full length."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode controls of writing direction; a text's own letters give its direction."""
_COMMON_WORDS = """
a about after all also an and any are as at be because been but by can could did do does for from had has have he her
his how i if in into is it its more most my no not of on one or other our she so some such than that the their them
then there these they this to was we were what when where which who why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class CutText(NamedTuple):
    """A text on a page: its beginning, the rest below it, and the length of the whole (characters)."""

    start: Markup
    rest: Markup
    length: int
    cut: bool


def clean(text: str) -> str:
    """The text without orders to turn its direction; each control character but tab and newline as U+FFFD."""
    return _CONTROLS.sub("\ufffd", _DIRECTIONS.sub("", text))


def terms(text: str) -> frozenset[str]:
    """The words of a text, case aside, without those that most texts have; numbers are words."""
    return frozenset(_words(text[:OPENED])).difference(_COMMON)


def marked(text: str, wanted: Collection[str]) -> Markup:
    """The text escaped, with every word that is wanted in a `mark`."""
    pieces, end = [], 0
    for start, stop in term_spans(text):
        if text[start:stop].casefold() in wanted:
            start = max(start, end)
            pieces += [escape(text[end:start]), Markup("<mark>%s</mark>") % text[start:stop]]
            end = stop
    return Markup("").join([*pieces, escape(text[end:])])


def beginning(text: str, most: int = 300) -> str:
    """The start of a text on one line, cut after a word."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"


def cut(text: str, wanted: Collection[str]) -> CutText:
    """A text, cut after a word where it is long."""
    shown = clean(text[:OPENED])
    if len(shown) <= SHOWN:
        return CutText(marked(shown, wanted), Markup(""), len(text), len(text) > OPENED)
    middle = shown.rfind(" ", SHOWN - 80, SHOWN) + 1 or SHOWN
    return CutText(marked(shown[:middle], wanted), marked(shown[middle:], wanted), len(text), len(text) > OPENED)
