"""Split text into sentences and words, and match short answers as in open-domain question answering.

With `string`, an answer matches if its tokens occur consecutively in the text, ignoring case; a token is a run of
letters, numbers and marks, or any other visible character. With `regex`, it is a search pattern. Both use NFD text.
"""

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
import regex
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.records import DataError
from hardneg.records.text import UNSPACED

_END = regex.compile(
    r"""(?<=[.!?…]["'”’»)\]]{0,8})\s+(?=["'“‘«(\[]*[\p{Lu}\p{Lo}\p{N}])  # an end before a capital or digit
    |(?<=[。！？।॥۔؟።፧։។။][」』”]{0,8})\s*  # unambiguous ends, with or without a space
    |(?<=[\p{Thai}\p{Lao}][\p{M}\p{P}]?)[ ]+(?=\p{Thai}|\p{Lao})  # scripts that separate sentences by a space
    |(?<!\s)\s*\n\s*\n\s*  # a blank line, tried once per stretch of white space""",
    regex.VERBOSE,
)
_NO_END = regex.compile(
    r"(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|Fig|Figs|Eq|Sec|No|vs|cf|approx|e\.g|i\.e|et al|\p{Lu})\.$"
)
_ABBREVIATION = 16  # characters: more than any of `_NO_END` has with the one before it
_WORD_PATTERN = rf"[{UNSPACED}]{{1,2}}\p{{P}}*|[^\s{UNSPACED}]+"  # for regex and for RE2
_WORD = regex.compile(_WORD_PATTERN)


def sentences(text: str) -> list[str]:
    """Split text into stripped sentences, in order. Except for white space, they cover the whole text.

    A sentence ends at `.`, `!`, `?` or `…` before a capital, a digit or a letter without case, at marks like `。` and
    `।`, at a space between Thai or Lao letters, and at a blank line. Initials and abbreviations do not end a sentence.
    """
    parts: list[str] = []
    start = 0
    for match in _END.finditer(text):
        end = match.start()
        if _NO_END.search(text[max(start, end - _ABBREVIATION) : end]):
            continue
        if part := text[start:end].strip():
            parts.append(part)
            start = match.end()
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word, in characters.

    White space separates words; in scripts without spaces between words, every two characters form a word.
    """
    return [match.span() for match in _WORD.finditer(text)]


def document_lengths(corpus: Corpus) -> dict[str, float]:
    """Return the `mean`, `median`, `95 %` quantile and `longest` document length in words; empty without documents.

    Titles are included. Memory use is 4 bytes per document.
    """
    import pyarrow.compute as pc

    counts = [np.empty(0, np.int32)]
    for part in corpus.columns([1, 2]):
        titles, texts = (pc.count_substring_regex(column, _WORD_PATTERN).to_numpy(False) for column in part.columns)
        counts.append(np.asarray(titles + texts, np.int32))
    if not len(lengths := np.concatenate(counts)):
        return {}
    median, high = (int(value) for value in np.percentile(lengths, [50, 95]))
    return {"mean": round(float(lengths.mean()), 1), "median": median, "95 %": high, "longest": int(lengths.max())}


Match = Literal["string", "regex"]
Finder = Callable[[str], bool]
"""A function that returns whether a prepared text contains an answer to one question."""

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_CLUSTER = regex.compile(r"(?s).\p{M}*")
_BETWEEN = "\n"  # occurs in no token
_SECONDS = 1.0
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]|\(\?[a-zA-Z]*x")
_QUESTIONS = 256


def answer_spans(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Return the distinct character spans in `text` that match any of `answers` (as with `string`), in order."""
    decomposed, origins = text, [(i, i + 1) for i in range(len(text))]  # the source span of each character
    if not text.isascii():  # NFD splits a character from its accents; both come from one cluster
        parts = [(unicodedata.normalize("NFD", cluster.group()), cluster.span()) for cluster in _CLUSTER.finditer(text)]
        decomposed, origins = "".join(part for part, _ in parts), [span for part, span in parts for _ in part]
    tokens = list(_TOKEN.finditer(decomposed))
    words = [token.group().lower() for token in tokens]
    joined = f"{_BETWEEN}{_BETWEEN.join(words)}{_BETWEEN}"
    token_at = {start: i for i, start in enumerate(accumulate((len(word) + 1 for word in words), initial=0))}
    spans = set()
    for needle in {_joined(part) for answer in answers if _TOKEN.search(part := unicodedata.normalize("NFD", answer))}:
        start = joined.find(needle)
        while start >= 0:
            first, last = tokens[token_at[start]], tokens[token_at[start + len(needle) - 1] - 1]
            spans.add((origins[first.start()][0], origins[last.end() - 1][1]))
            start = joined.find(needle, start + 1)
    return sorted(spans)


def prepared(text: str, match: Match) -> str:
    """Prepare a text for functions that `finder` returns for the same `match`. All questions can share the result."""
    text = unicodedata.normalize("NFD", text)
    return text if match == "regex" else _joined(text)


def finder(answers: Sequence[str], match: Match, left_out: Counter[str]) -> Finder:
    """Return a function that checks whether a prepared text contains any of `answers`.

    `left_out` counts unusable answers, by reason: those without a token, patterns that cannot be compiled, and patterns
    that take longer than a second on one text and are then dropped.
    """
    usable = [text for answer in answers if _TOKEN.search(text := unicodedata.normalize("NFD", answer))]
    if len(usable) < len(answers):
        left_out["answers without a word"] += len(answers) - len(usable)
    if match == "string":
        needles = [_joined(text) for text in usable]
        return lambda text: any(needle in text for needle in needles)
    searchers = [look for text in usable if (look := _searcher(text, left_out))]

    def search(text: str) -> bool:
        for searcher in list(searchers):
            try:
                if searcher(text):
                    return True
            except TimeoutError:
                searchers.remove(searcher)
                left_out["patterns dropped after a second on one passage"] += 1
        return False

    return search


def _joined(text: str) -> str:
    return f"{_BETWEEN}{_BETWEEN.join(_TOKEN.findall(text)).lower()}{_BETWEEN}"


def _searcher(text: str, left_out: Counter[str]) -> Finder | None:
    """Compile a pattern; None if that fails.

    The pattern is searched with `re`. If it might backtrack for a very long time (repeated groups, comments that hide
    them, several repeats, many options), `regex` is used, which has a timeout and treats accents as parts of words.
    """
    slow = bool(_REPEATED_GROUP.search(text)) or sum(map(text.count, "*+}")) > 1 or text.count("?") > 7
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = re.compile(text, re.IGNORECASE | re.MULTILINE)
            careful = regex.compile(text, regex.IGNORECASE | regex.MULTILINE | regex.VERSION0) if slow else None
    except (re.error, regex.error, ValueError, OverflowError, RecursionError, MemoryError):
        left_out["patterns that cannot be compiled"] += 1
        return None
    if careful is None:
        return lambda passage: plain.search(passage) is not None
    return lambda passage: careful.search(passage, timeout=_SECONDS) is not None


class PassageAnswers:
    """Finds the answers to questions in the texts of passages; titles are ignored.

    Texts are read on demand, and each is tokenized once per 256 questions.

    answers: the answers by query id. left_out: number of unusable answers, by reason; each question is counted once.
    """

    def __init__(self, corpus: Corpus, answers: Mapping[str, Sequence[str]], match: Match = "string") -> None:
        self.left_out, self._finders = Counter[str](), dict[str, Finder]()
        self._corpus, self._answers, self._match = corpus, answers, match

    @classmethod
    def of(cls, collection: StoredCollection, split: str, match: Match = "string") -> "PassageAnswers":
        """Create the finder for the queries of one split. Raises DataError if the split has no answers."""
        answers = collection.answers(split)
        if not answers:
            raise DataError(f"split {split} has no answers; use a dataset with answers, or a metric that needs none")
        return cls(collection.corpus, answers, match)

    @property
    def query_ids(self) -> list[str]:
        """The ids of the questions that have answers."""
        return [query_id for query_id, texts in self._answers.items() if texts]

    def contained(self, query_ids: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which passages `rows`, int64 [Q, k], contain an answer to their query: bool [Q, k], false for -1."""
        has_answers, answered = np.zeros(rows.shape, bool), rows >= 0
        answered &= np.array([bool(self._answers.get(query_id)) for query_id in query_ids], bool)[:, None]
        for start in range(0, len(query_ids), _QUESTIONS):
            block = slice(start, start + _QUESTIONS)
            owners = (np.nonzero(answered[block])[0] + start).tolist()
            distinct, numbers = np.unique(rows[block][answered[block]], return_inverse=True)
            texts = [prepared(document.text, self._match) for document in self._corpus.documents_at(distinct)]
            for query_id in {query_ids[owner] for owner in owners} - self._finders.keys():
                self._finders[query_id] = finder(self._answers[query_id], self._match, self.left_out)
            pairs = zip(owners, numbers.tolist(), strict=True)
            has_answers[block][answered[block]] = [self._finders[query_ids[i]](texts[number]) for i, number in pairs]
        return has_answers

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """Like `contained`, for lists of document ids: bool [Q, longest list], false for padding and unknown ids."""
        return self.contained(query_ids, self._corpus.list_rows(lists))
