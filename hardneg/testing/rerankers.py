"""The contract of rerankers (`hardneg.protocols.Reranker`) as tests."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from hardneg.testing.contract import PluginTests, rule

Request = tuple[str, Sequence[str]]


class RerankerTests(PluginTests):
    """Set `plugin`; `tolerance` is how far two scores of one document may be apart (batches change last bits).

    `lookahead` is how many requests it may read before it gives the first answer.
    """

    tolerance: ClassVar[float] = 1e-4
    lookahead: ClassVar[int] = 1024

    def requests(self) -> list[Request]:
        """Five queries with none to six documents, of different lengths, one of them empty."""
        words = ["an", "old", "river", "ran", "past", "the", "quiet", "bridge", "and", "the", "blue", "harbor"]
        documents = [" ".join(words[i : i + 2 + 2 * (i % 5)]) for i in range(6)]
        return [
            ("old river", documents),
            ("nothing", []),
            ("quiet bridge", documents[:1]),
            ("harbor", ["", *documents[3:]]),
            ("river " * 40, documents[1:3]),
        ]

    def _scores(self, folder: Path, requests: Sequence[Request]) -> list[list[float]]:
        return [[float(score) for score in scores] for scores in self.make(folder).rerank(iter(requests))]

    def test_a_score_a_document_in_order(self, tmp_path: Path) -> None:
        """One sequence a request, as long as its documents."""
        asked = self.requests()
        found = self._scores(tmp_path, asked)
        rule(len(found) == len(asked), "there is one answer a request", f"{len(found)} for {len(asked)}")
        lengths = [len(scores) for scores in found], [len(documents) for _, documents in asked]
        rule(lengths[0] == lengths[1], "an answer has one score a document, in their order", lengths[0])
        rule(all(np.isfinite(scores).all() for scores in found), "scores are finite")
        rule(not self._scores(tmp_path, []), "there is no answer where there is no request")

    def test_an_empty_document_list(self, tmp_path: Path) -> None:
        """A query whose run found nothing."""
        try:
            found = self._scores(tmp_path, [("river", [])])
        except Exception as error:
            raise AssertionError(f"broken rule: an empty list of documents is no error\n  found: {error!r}") from error
        rule(found == [[]], "an empty list of documents has an empty list of scores", found)

    def test_other_requests_have_no_effect(self, tmp_path: Path) -> None:
        """The same scores in another order of requests, and alone."""
        asked = self.requests()
        together = self._scores(tmp_path, asked)
        text = "scores of a request depend on it alone, not on"
        turned = self._scores(tmp_path, asked[::-1])[::-1]
        rule(self._close(together, turned), f"{text} the order of requests", f"{together}, then {turned}")
        alone = [self._scores(tmp_path, [request])[0] for request in asked]
        rule(self._close(together, alone), f"{text} the others of a batch", f"{together}, then {alone}")

    def _close(self, one: list[list[float]], two: list[list[float]]) -> bool:
        pairs = zip(one, two, strict=True)
        return all(len(a) == len(b) and np.allclose(a, b, rtol=self.tolerance, atol=self.tolerance) for a, b in pairs)

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of queries."""
        text = f"requests are read lazily: at most {self.lookahead} before the first answer"

        def endless() -> Iterator[Request]:
            for _ in range(self.lookahead):
                yield "river", ["an old river"]
            rule(False, text)

        next(iter(self.make(tmp_path).rerank(endless())))
