"""Word splitting for text in any script, and language identification."""

from collections.abc import Iterable, Iterator

import regex

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Letters of scripts without spaces between words, as the content of a character class in regex and RE2."""
_LETTER = regex.compile(f"[{UNSPACED}]")
_TERM = regex.compile(
    rf"(?<![\w--[{UNSPACED}]])[\w--[{UNSPACED}]]+|[{UNSPACED}]{{2}}|(?<![{UNSPACED}])[{UNSPACED}](?![{UNSPACED}])",
    regex.V1,
)


def unspaced(text: str) -> bool:
    """Return whether text contains a letter from a script without spaces between words."""
    return _LETTER.search(text) is not None


def term_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each word, in characters.

    Words are runs of letters and digits; in scripts without spaces between words, overlapping pairs of letters.
    """
    return (match.span() for match in _TERM.finditer(text, overlapped=unspaced(text)))


def terms(text: str) -> list[str]:
    """Return the words of a text, case-folded and split as in `term_spans`."""
    words: list[str] = _TERM.findall(text.casefold(), overlapped=unspaced(text))
    return words


ENGLISH = "en"
_SCRIPTS = {
    ENGLISH: "Latin",
    "ar": "Arabic",
    "bn": "Bengali",
    "hi": "Devanagari",
    "ja": r"Hiragana}\p{Katakana",
    "ko": "Hangul",
    "ru": "Cyrillic",
    "te": "Telugu",
    "th": "Thai",
    "zh": "Han",
}
_OWN_LETTERS = {"ar": ("fa", "[پچژگ]"), "ru": ("uk", "[іїєґ]")}
"""By language of a script: another language with the same script, and the letters that identify it."""
_COMMON = {
    ENGLISH: "the of and to in is that for",
    "da": "og at det af til der ikke med",
    "de": "der die und das ist nicht den von",
    "es": "que el los del las una por con",
    "fi": "ja on ei että oli se mutta myös",
    "fr": "le les des et est une dans du",
    "hu": "az és hogy nem egy volt meg is",
    "id": "yang dan di dengan untuk dari ini itu",
    "it": "il di che è della per non gli",
    "nl": "de het een van en dat niet voor",
    "no": "og det av til som å ikke på",
    "pl": "nie się na jest do że oraz jak",
    "pt": "que os do da em uma não com",
    "sv": "och att det som är på av för",
    "tr": "ve bir bu için ile olarak çok gibi",
}
_LEAST = 0.05
"""The minimum share of letters or words that identifies a language other than the script's default."""


def language_of(texts: Iterable[str]) -> str:
    """Return the ISO 639-1 code of the texts' main language; `en` if undetermined."""
    text = "\n".join(texts).casefold()
    counts = {code: len(regex.findall(rf"[\p{{{script}}}]", text)) for code, script in _SCRIPTS.items()}
    code = max(counts, key=counts.__getitem__)
    if code == "zh" and counts["ja"] >= _LEAST * counts["zh"]:
        return "ja"
    if code in _OWN_LETTERS:
        other, letters = _OWN_LETTERS[code]
        return other if len(regex.findall(letters, text)) >= 0.2 * _LEAST * counts[code] else code
    if code != ENGLISH:
        return code
    words = regex.findall(r"\w+", text)
    hits = {each: sum(map(set(common.split()).__contains__, words)) for each, common in _COMMON.items()}
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] >= _LEAST * len(words) else ENGLISH
