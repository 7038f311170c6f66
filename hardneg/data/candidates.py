"""What a miner may look at for one query, put together from a corpus, judgements and ranked lists."""

from collections.abc import Mapping, Sequence

from hardneg.data.corpus import Corpus
from hardneg.types import Candidates, RankedList


def candidates(corpus: Corpus, query_id: str, known: Sequence[str], hits: Mapping[str, RankedList]) -> Candidates:
    """The candidates of one query; `known` are its positives, copies of which are found in the corpus."""
    copies = corpus.copies(corpus.rows(known))
    duplicates = frozenset(corpus.ids(copies)) - frozenset(known)
    return Candidates(query_id, known, hits, corpus.doc_ids, duplicates)
