"""Ranked lists of one query interleaved: the first of each list, the second of each, and so on."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from hardneg.types import RankedList


def zipped(lists: Sequence[RankedList], length: int) -> RankedList:
    """The lists' documents by turns, beginning with the first list, until there are `length`; repeats are left out.

    A document that another list gave before is left out without another in its place. What remains of longer lists
    follows in its order. The scores do not come from the lists: that of rank r is 1 / r, float32 [n].

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 3.4.
    """
    turns = (doc_id for turn in zip_longest(*(ranked.doc_ids for ranked in lists)) for doc_id in turn)
    doc_ids = list(dict.fromkeys(doc_id for doc_id in turns if doc_id is not None))[:length]
    return RankedList(doc_ids, (1.0 / np.arange(1, len(doc_ids) + 1)).astype(np.float32))
