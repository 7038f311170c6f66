"""Streaming readers and writers of file formats: corpus, queries, qrels, runs, negatives and vectors."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand

if TYPE_CHECKING:
    from hardneg.formats import collection, forms, negatives, qrels, runs, texts, vectors, vectors_import

__getattr__ = partial(on_demand, __name__)
