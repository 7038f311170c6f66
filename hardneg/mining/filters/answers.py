"""The filter `answers` drops documents that contain a short answer to the query."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.records.types import Candidates

REASON = "answer"
_QUERIES = 256


@dataclass(frozen=True)
class AnswerFilter:
    """Drop documents that contain a short answer to the query.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 3.2.

    Attributes:
        match: match answers as words, or as regular expressions.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("answers",)

    match: Literal["string", "regex"] = "string"

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `answer` for each document that contains one; queries without answers keep all."""
        waiting, answers = iter(candidates), texts.answers(self.match)
        while block := list(islice(waiting, _QUERIES)):
            lists = [query.listed for query in block]
            matches = answers.in_lists([query.query_id for query in block], lists)
            for doc_ids, row in zip(lists, matches.tolist(), strict=True):
                yield {doc_id: REASON for doc_id, has in zip(doc_ids, row, strict=False) if has}
