"""The contract of rerankers (`hardneg.protocols.Reranker` and `TrainableReranker`) as tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.testing.plugin_contract import LOOKAHEAD, TOLERANCE, PluginTests, check_independent, lazily, rule

Request = tuple[str, Sequence[str]]


class RerankerTests(PluginTests):
    """Set `plugin`; `tolerance`: the largest difference of two scores of one document (batches change last bits).

    `lookahead` is how many requests it may read before it gives the first answer.
    """

    tolerance: ClassVar[float] = TOLERANCE
    lookahead: ClassVar[int] = LOOKAHEAD

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
        requests = self.requests()
        answers = self._scores(tmp_path, requests)
        rule(len(answers) == len(requests), "there is one answer a request", f"{len(answers)} for {len(requests)}")
        lengths = [len(scores) for scores in answers], [len(documents) for _, documents in requests]
        rule(lengths[0] == lengths[1], "an answer has one score a document, in their order", lengths[0])
        rule(all(np.isfinite(scores).all() for scores in answers), "scores are finite")
        rule(not self._scores(tmp_path, []), "there is no answer where there is no request")

    def test_an_empty_document_list(self, tmp_path: Path) -> None:
        try:
            answers = self._scores(tmp_path, [("river", [])])
        except Exception as error:
            raise AssertionError(f"broken rule: an empty list of documents is no error\n  found: {error!r}") from error
        rule(answers == [[]], "an empty list of documents has an empty list of scores", answers)

    def test_other_requests_have_no_effect(self, tmp_path: Path) -> None:
        text = "scores of a request depend on it alone"
        check_independent(lambda some: self._scores(tmp_path, some), self.requests(), text, "requests", self._close)

    def _close(self, one: list[list[float]], two: list[list[float]]) -> bool:
        pairs = zip(one, two, strict=True)
        return all(len(a) == len(b) and np.allclose(a, b, rtol=self.tolerance, atol=self.tolerance) for a, b in pairs)

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of queries."""
        requests = (("river", ["an old river"]) for _ in range(self.lookahead))
        next(iter(self.make(tmp_path).rerank(lazily(requests, "requests", self.lookahead))))


class TrainableRerankerTests(RerankerTests):
    """The tests of a reranker that can be trained.

    `rounding` is how far scores may be from those in 32 bits, for a plugin that computes in 16.
    """

    rounding: ClassVar[float] = 0.02

    def _pairs(self) -> list[tuple[str, str]]:
        return [(query, text) for query, documents in self.requests() for text in documents]

    def _outputs(self, network: Any) -> NDArray[np.float32]:
        outputs: NDArray[np.float32] = network.to("cpu").predict(self._pairs(), show_progress_bar=False)
        return outputs

    def test_loads_the_same_network_each_time(self, tmp_path: Path) -> None:
        """Weights that the source lacks, such as a new head's, are drawn from a seed of the plugin's own."""
        import torch

        plugin, outputs = self.make(tmp_path), []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            outputs.append(self._outputs(plugin.load(None)))
            rule(bool(torch.equal(before, torch.get_rng_state())), "loading leaves torch's random state as it was")
        rule(bool(np.array_equal(outputs[0], outputs[1])), "`load(None)` gives the same weights at each call", outputs)

    def test_a_network_of_one_or_two_outputs(self, tmp_path: Path) -> None:
        from sentence_transformers import CrossEncoder

        network = self.make(tmp_path).load(None)
        rule(isinstance(network, CrossEncoder), "`load` gives a sentence_transformers.CrossEncoder", type(network))
        rule(network.num_labels in (1, 2), "the network has one output or two", network.num_labels)
        rule(not network.training, "the network is in evaluation mode")
        rule(isinstance(network.max_seq_length, int), "`max_seq_length` says how much is read", network.max_seq_length)

    def test_its_own_scores_are_the_networks(self, tmp_path: Path) -> None:
        import torch

        plugin = self.make(tmp_path)
        network = plugin.load(None).to("cpu")
        raw = torch.from_numpy(network.predict(self._pairs(), activation_fn=torch.nn.Identity()))
        logits = raw.reshape(len(raw), -1)
        expected = network.activation_fn(logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)).tolist()
        actual = [score for scores in self._scores(tmp_path, self.requests()) for score in scores]
        near = np.allclose(actual, expected, rtol=self.rounding, atol=self.rounding)
        rule(near, "`rerank` gives the network's scores", f"{actual} instead of {expected}")

    def test_a_saved_network_comes_back(self, tmp_path: Path) -> None:
        import torch

        plugin = self.make(tmp_path)
        network = plugin.load(None).to("cpu")
        with torch.no_grad():
            for weight in network.parameters():
                weight.mul_(1.25)
        network.save_pretrained(str(tmp_path / "trained"), create_model_card=False)
        again = plugin.load(tmp_path / "trained")
        near = np.allclose(self._outputs(again), self._outputs(network), atol=1e-6)
        rule(near, "`load(folder)` gives the network that was saved there")
        rule(again.max_seq_length == network.max_seq_length, "`load(folder)` reads as much as `load(None)`")

    def test_the_fingerprint_names_the_content(self, tmp_path: Path) -> None:
        plugin = self.make(tmp_path)
        name = plugin.fingerprint()
        rule(isinstance(name, str) and bool(name), "`fingerprint` is a text that is not empty", name)
        rule(plugin.fingerprint() == name, "`fingerprint` is the same as long as the content is")
