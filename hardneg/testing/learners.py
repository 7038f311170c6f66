"""The contract of families of encoders that can learn as tests."""

from pathlib import Path
from typing import Any

import numpy as np

from hardneg.testing.encoders import EncoderTests
from hardneg.testing.plugin_contract import rule


class TrainableEncoderTests(EncoderTests):
    """The tests of a family whose encoders can be trained; the family must be installed by its entry point."""

    def test_it_learns_what_it_is_searched_by(self, tmp_path: Path) -> None:
        """Scores in training equal those of a search, and have gradients."""
        import torch

        from hardneg.indexes.kernels.candidate_scoring import score_matrix

        encoder = self._opened(tmp_path, to_train=True)
        queries, documents = self._embedded(encoder, "query"), self._embedded(encoder, "document")
        scores = encoder.score(queries, documents)
        wanted = score_matrix(
            self._encode(encoder, self.queries(), "query"), self._encode(encoder, self.documents(), "document")
        )
        wanted = np.where(np.isneginf(wanted), 0, wanted)  # no hit
        trained = scores.detach().numpy()
        near = np.allclose(trained, wanted, rtol=self.tolerance, atol=self.tolerance)
        rule(near, "texts score in training as in a search", f"{trained[0]} for {wanted[0]}")
        columns = torch.tensor([2, 0, 0, 1])
        chosen = encoder.score(queries, documents, columns)
        rule(bool(torch.allclose(chosen, scores[:, columns], atol=1e-5)), "`columns` chooses documents")
        encoder.module.train()
        encoder.score(self._embedded(encoder, "query"), self._embedded(encoder, "document")).sum().backward()
        learnt = [part for part in encoder.module.parameters() if part.grad is not None and bool(part.grad.any())]
        rule(bool(learnt), "scores have gradients to the model's weights")

    def _embedded(self, encoder: Any, side: str) -> Any:
        texts = self.queries() if side == "query" else self.documents()
        return encoder.embed(encoder.features(texts, side), side)

    def test_what_learns_is_stored_and_read_back(self, tmp_path: Path) -> None:
        """`collect` equals `encode`, `tensor` equals `embed`; lists of documents score as a matrix."""
        import torch

        encoder = self._opened(tmp_path, to_train=True)
        queries, documents = self._embedded(encoder, "query"), self._embedded(encoder, "document")
        held = encoder.collect(documents)
        self._alike(held, self._encode(encoder, self.documents()), "`collect` gives what `encode` gives")
        again = encoder.score(queries, encoder.tensor(held))
        scores = encoder.score(queries, documents)
        near = torch.allclose(again, scores, atol=self.tolerance, rtol=self.tolerance)
        rule(bool(near), "`tensor` makes of what is held what `embed` made")
        own = np.array([[0, 5], [3, 1], [7, 7]])
        lists = encoder.score_lists(queries, held[own.ravel()])
        chosen = scores[torch.arange(len(own))[:, None], torch.from_numpy(own)]
        near = lists.shape == chosen.shape and torch.allclose(lists, chosen, atol=self.tolerance, rtol=self.tolerance)
        rule(bool(near), "a list of documents for each query scores as the matrix does", lists)

    def test_saved_and_opened_it_is_the_same(self, tmp_path: Path) -> None:
        """It has the same family, and the same numbers for queries and documents."""
        from hardneg.encoders.open.resolved import open_encoder, resolve

        encoder, folder = self._opened(tmp_path, to_train=True), tmp_path / "saved"
        encoder.save(folder)
        again: Any = open_encoder(folder, "cpu", "fp32")
        family = type(resolve(again.spec).family)
        rule(family is type(self.make(tmp_path)), "a saved model is opened by the same family", family)
        for side, texts in (("query", self.queries()), ("document", self.documents())):
            self._alike(
                self._encode(again, texts, side),
                self._encode(encoder, texts, side),
                f"a saved model makes the same of each {side}",
            )
