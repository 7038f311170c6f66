"""The language of texts, guessed by their letters and commonest words, where Lucene has an analyzer for it."""

from collections.abc import Iterable

import regex

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
"""Another language of a script, and the letters that it alone has."""
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
"""Of the letters of a script, or of the words, the share by which another language than the usual one is told."""


def language_of(texts: Iterable[str]) -> str:
    """The ISO 639-1 code of the language that most of the texts are in; `en` where nothing tells another."""
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
