"""Answers that were read, against the answers to a question: the same after normalisation, or by shared words.

Normalised: lower case, no ASCII punctuation, no articles, single spaces.

Source: Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text (EMNLP 2016), section 6.1.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(answer: str) -> str:
    """An answer as it is compared."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(read: str, answers: Sequence[str]) -> float:
    """1 where the answer that was read is one of `answers`, else 0."""
    return float(normalised(read) in map(normalised, answers))


def f1(read: str, answers: Sequence[str]) -> float:
    """The harmonic mean of precision and recall by words, against the answer of `answers` that it is highest for.

    Where one of the two has no words, it is 1 if neither has any, else 0.
    """
    return max((_overlap(normalised(read).split(), normalised(answer).split()) for answer in answers), default=0.0)


def _overlap(read: Sequence[str], answer: Sequence[str]) -> float:
    if not read or not answer:
        return float(not read and not answer)
    shared = (Counter(read) & Counter(answer)).total()
    return 2 * shared / (len(read) + len(answer))
