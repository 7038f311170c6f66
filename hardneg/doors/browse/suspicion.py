"""How likely a negative is to be relevant after all, with the reasons in words."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hardneg.records.terms import terms
from hardneg.records.types import RankedList

SHINGLE = 3
"""Words in a row that make one shingle."""
_CHARACTERS = 20_000
_COPY = 0.3
"""The resemblance above which two texts are near copies."""

Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class SuspectedNegative:
    """A negative of a query. score: between 0 and 3, 0 where nothing speaks against it; reasons: in words.

    alike: the positive that it is a near copy of; empty: none.
    """

    query_id: str
    doc_id: str
    score: float
    reasons: tuple[str, ...]
    alike: str = ""


class Standing(NamedTuple):
    """A rank in a list, counted from 1, and the score there."""

    rank: int
    score: float


def standings(ranked: RankedList, doc_ids: Collection[str]) -> dict[str, Standing]:
    """The rank and score of some documents in a list; those that it lacks are left out."""
    wanted = set(doc_ids)
    listed = zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)
    return {doc_id: Standing(rank, score) for rank, (doc_id, score) in enumerate(listed, 1) if doc_id in wanted}


def shingles(text: str) -> Shingles:
    """All runs of three words of a text, case aside; of a shorter one its words together."""
    words = terms(text[:_CHARACTERS])
    if len(words) < SHINGLE:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def resemblance(first: Shingles, second: Shingles) -> float:
    """The part of all shingles of two texts that both have, between 0 and 1; 0 where there is none.

    Source: Broder, On the resemblance and containment of documents (SEQUENCES 1997), section 2, with w = 3.
    """
    together = len(first | second)
    return len(first & second) / together if together else 0.0


def above(negative: Standing | None, positive: Standing | None, listed: int) -> float:
    """How far a list has a negative above the best positive: 1 - rank of the negative / rank of the positive.

    0 where it stands below. A positive that is not in a list of `listed` documents counts as standing behind it.
    """
    if negative is None:
        return 0.0
    return max(0.0, 1 - negative.rank / (positive.rank if positive else listed + 1))


@dataclass(frozen=True)
class Evidence:
    """The evidence on a query's documents. lists: ranked ones by system; judges: those among them that filter.

    positives, negatives: the shingles of their texts by id.
    """

    query_id: str
    positives: Mapping[str, Shingles]
    negatives: Mapping[str, Shingles]
    lists: Mapping[str, RankedList]
    judges: Collection[str]

    def suspected(self) -> list[SuspectedNegative]:
        """Each negative with its score: copy + judged + agreed.

        copy: its highest resemblance to a positive, from 0.3 on. judged: the mean of `above` over the runs of rerankers
        and guides. agreed: the same over all other systems.
        """
        by_list = {label: standings(ranked, [*self.positives, *self.negatives]) for label, ranked in self.lists.items()}
        best = {
            label: min((ranks[doc_id] for doc_id in self.positives if doc_id in ranks), default=None)
            for label, ranks in by_list.items()
        }
        return [self._of(doc_id, by_list, best) for doc_id in self.negatives]

    def _of(
        self, doc_id: str, by_list: Mapping[str, Mapping[str, Standing]], best: Mapping[str, Standing | None]
    ) -> SuspectedNegative:
        own = self.negatives[doc_id]
        closest = max(((resemblance(own, other), name) for name, other in self.positives.items()), default=(0.0, ""))
        score, alike = (0.0, "") if closest[0] < _COPY else closest
        reasons = [f"shares {100 * score:.0f} % of its word triples with positive {alike}"] if alike else []
        for judging in (True, False):
            heights = {
                label: above(ranks.get(doc_id), best[label], len(self.lists[label].doc_ids))
                for label, ranks in by_list.items()
                if (label in self.judges) == judging
            }
            if heights:
                score += sum(heights.values()) / len(heights)
            for label in (label for label, height in heights.items() if height):
                positive = best[label]
                where = f"which it has at {positive.rank}" if positive else "which it does not have"
                rank = by_list[label][doc_id].rank
                reasons.append(f"{label} ranks it at {rank}, above the best positive, {where}")
        return SuspectedNegative(self.query_id, doc_id, score, tuple(reasons), alike)
