"""Documents that are no negatives of a query though nobody judged them, because of the query's own text."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import find_equal, hash_texts, normalise, ranges

Rows = NDArray[np.int64]


def own_documents(corpus: Corpus, query_ids: Sequence[str], texts: Sequence[str]) -> tuple[Rows, Rows]:
    """Documents that are the query itself: of its text, or of its id and, title aside, of its text.

    White space does not count.

    Returns:
        int64 [n], rows of the corpus, some twice; int64 [n], the position of each one's query.
    """
    plain = [normalise(text) for text in texts]
    position, owner = ranges(*find_equal(corpus.content_hash, hash_texts(plain), corpus.content_order))
    named = corpus.rows(query_ids)
    rows = np.concatenate([corpus.content_order[position], named[named >= 0]])
    owner = np.concatenate([owner, np.flatnonzero(named >= 0)])
    documents = zip(corpus.documents_at(rows), owner.tolist(), strict=True)
    same = np.array([plain[at] in (normalise(each.contents), normalise(each.text)) for each, at in documents], bool)
    return rows[same], owner[same]


def set_aside(
    corpus: Corpus, query_ids: Sequence[str], texts: Sequence[str], positives: Mapping[str, Sequence[str]]
) -> tuple[dict[int, Rows], set[str]]:
    """Documents that are the query itself, and what is positive for any query of the same text, with copies of both.

    Returns:
        By the query's position: int64 [n], rows of the corpus, one array for all queries of one text; and the ids of
        the queries that share their text with another one.
    """
    own, members = dict[str, list[int]](), dict[str, list[int]]()
    plain = [normalise(text) for text in texts]
    rows, owner = own_documents(corpus, query_ids, texts)
    for row, at in zip(rows.tolist(), owner.tolist(), strict=True):
        own.setdefault(plain[at], []).append(row)
    for at, text in enumerate(plain):
        members.setdefault(text, []).append(at)
    aside, sharing = dict[int, Rows](), set[str]()
    for text, group in members.items():
        names = dict.fromkeys(query_ids[at] for at in group)
        if len(names) == 1 and text not in own:
            continue
        names = names if len(names) > 1 else {}
        sharing |= names.keys()
        known = corpus.rows([doc_id for name in names for doc_id in positives.get(name, ())])
        several = corpus.copies(np.array([*known[known >= 0].tolist(), *own.get(text, ())], np.int64))
        aside |= dict.fromkeys(group, several)
    return aside, sharing
