"""Kinds of plugins as they are named on the command line, in the singular or the plural."""

from hardneg.errors import UsageError
from hardneg.registry import KINDS, suggestion

SINGULARS = dict(zip(("dataset", "miner", "loss", "index", "reranker"), KINDS, strict=True))


def kind_of(word: str) -> str:
    """The kind that a word names.

    Raises:
        UsageError: it names none.
    """
    kind = SINGULARS.get(word, word)
    if kind not in KINDS:
        known = ", ".join(SINGULARS)
        raise UsageError(f"no kind of plugin is called {word!r}{suggestion(word, SINGULARS)}; there are: {known}")
    return kind
