"""Whether a text has one of the short answers to a question, as open-domain question answering counts it.

`string`: the answer's tokens stand in the text, one after the other. A token is a run of letters, numbers and marks, or
any other single character that is seen; accents are taken apart (NFD), case does not matter. `regex`: each answer is a
regular expression that is searched in the text, case aside, after NFD too.
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

Match = Literal["string", "regex"]
Finder = Callable[[str], bool]
"""Whether a prepared text has an answer to one question."""

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_CLUSTER = regex.compile(r"(?s).\p{M}*")
_BETWEEN = "\n"  # no token has it
_SECONDS = 1.0
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]|\(\?[a-zA-Z]*x")
_QUESTIONS = 256


def has_answer(text: str, answers: Sequence[str], match: Match = "string") -> bool:
    """Whether `text` has one of `answers`."""
    return finder(answers, match, Counter())(prepared(text, match))


def answer_spans(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of characters of `text` that match any of `answers` by tokens, ascending, each once.

    There is a span exactly where `has_answer` is true.
    """
    decomposed, origins = text, [(i, i + 1) for i in range(len(text))]  # of each character, where it is in the text
    if not text.isascii():  # after NFD, a character and the accents that follow it are from one
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
    """A text in the form that finders search: worth keeping where several questions use it."""
    text = unicodedata.normalize("NFD", text)
    return text if match == "regex" else _joined(text)


def finder(answers: Sequence[str], match: Match, left_out: Counter[str]) -> Finder:
    """A search for any of `answers`; those that can never match are counted in `left_out`, by reason.

    An answer without a token never matches, and neither is a pattern that cannot be compiled. A pattern that is
    takes longer than a second in one text is dropped, and counted.
    """
    kept = [text for answer in answers if _TOKEN.search(text := unicodedata.normalize("NFD", answer))]
    if len(kept) < len(answers):
        left_out["answers without a word"] += len(answers) - len(kept)
    if match == "string":
        needles = [_joined(text) for text in kept]
        return lambda text: any(needle in text for needle in needles)
    searchers = [look for text in kept if (look := _searcher(text, left_out))]

    def search(text: str) -> bool:
        for searcher in list(searchers):
            try:
                if searcher(text):
                    return True
            except TimeoutError:
                searchers.remove(searcher)
                left_out["patterns given up after a second in one passage"] += 1
        return False

    return search


def _joined(text: str) -> str:
    """The tokens in lower case, one a line, with a line end before the first and after the last."""
    return f"{_BETWEEN}{_BETWEEN.join(_TOKEN.findall(text)).lower()}{_BETWEEN}"


def _searcher(text: str, left_out: Counter[str]) -> Finder | None:
    """What searches for a pattern, or None where it cannot be compiled.

    `re` searches, as it does elsewhere. A pattern that may take it for ever (repeated groups, or comments that hide
    them, several repeats, many options) goes to `regex`, which has a timeout. To `regex` an accent is part of a word.
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
    """Looks for the answers to questions in the texts of passages; titles are not looked at.

    Texts are read on demand, and each is tokenized once for every 256 questions.

    left_out: how many answers could not be used, by reason, each question's counted once.
    """

    def __init__(self, corpus: Corpus, answers: Mapping[str, Sequence[str]], match: Match = "string") -> None:
        self.left_out, self._finders = Counter[str](), dict[str, Finder]()
        self._corpus, self._answers, self._match = corpus, answers, match

    @classmethod
    def of(cls, collection: StoredCollection, split: str, match: Match = "string") -> "PassageAnswers":
        """Looks for the answers to the queries of one split. Raises DataError where it has none."""
        answers = collection.answers(split)
        if not answers:
            raise DataError(f"split {split} has no answers: take a dataset that has them, or what needs none")
        return cls(collection.corpus, answers, match)

    @property
    def query_ids(self) -> list[str]:
        """The questions that have answers."""
        return [query_id for query_id, texts in self._answers.items() if texts]

    def contained(self, query_ids: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each passage has an answer: bool [Q, k] for Q questions and `rows`, int64 [Q, k]; -1 has none."""
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
        """The same for lists of document ids, one a question: bool [Q, k], k the length of the longest."""
        return self.contained(query_ids, self._corpus.list_rows(lists))
