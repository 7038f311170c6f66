"""The filter `chat`: candidates that a language model finds relevant are no negatives."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from hardneg.plugin import Candidates, FilterTexts
from hardneg_judge.chat import Chat
from hardneg_judge.judging import RELEVANT, UNREADABLE

UNJUDGED = "unjudged"


@dataclass(frozen=True)
class ChatFilter(Chat):
    """Drops the candidates that a language model behind a server finds relevant, and those that it was not asked about.

    Source: Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard Negatives for
    Robust Information Retrieval (2025, arXiv 2505.16967).

    Args:
        relevant_from: the score from which on a passage is relevant: 1 of `yes-no`, up to 3 of `grades`.
        depth: how many of each list are judged, the first ones; those behind are dropped as `unjudged`.
    """

    relevant_from: float = 1.0
    depth: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.relevant_from <= self.best:
            problem = f"{self.relevant_from:g} is not above 0 and at most {self.best:g}, the best"
            raise ValueError(f"relevant_from: {problem} score")
        if self.depth < 1:
            raise ValueError(f"depth: {self.depth} must be above 0")

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """`relevant`, `unreadable` where no answer says that it is not, or `unjudged`; positives are not judged.

        Raises:
            ModelError: there is no key, the server refuses or does not answer, or no answer can be read.
        """
        waiting = iter(candidates)
        with self.asking(judging=True) as asking:
            while block := list(islice(waiting, max(1, asking.at_once // self.depth))):
                lists = [self._judged(query) for query in block]
                passages = [[document.contents for document in texts.documents(doc_ids)] for doc_ids in lists]
                scores = asking.rerank(zip(texts.queries([query.query_id for query in block]), passages, strict=True))
                for query, doc_ids, said in zip(block, lists, scores, strict=True):
                    verdicts = dict(zip(doc_ids, map(self._verdict, said), strict=True))
                    verdicts |= dict.fromkeys(query.positives, "")
                    against = {doc_id: verdicts.get(doc_id, UNJUDGED) for doc_id in query.listed}
                    yield {doc_id: reason for doc_id, reason in against.items() if reason}

    def _judged(self, query: Candidates) -> list[str]:
        """The first documents of each list, each once, without known positives."""
        known = frozenset(query.positives)
        tops = (doc_id for ranked in query.hits.values() for doc_id in ranked.doc_ids[: self.depth])
        return list(dict.fromkeys(doc_id for doc_id in tops if doc_id not in known))

    def _verdict(self, score: float) -> str:
        if score != score:
            return UNREADABLE
        return RELEVANT if score >= self.relevant_from else ""
