"""Contract tests for rerankers and losses (`hardneg.protocols`)."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.records import ScoreBatch
from hardneg.registry import needs_of
from hardneg.testing.plugins import LOOKAHEAD, TOLERANCE, PluginTests, check_independent, lazily, rule

if TYPE_CHECKING:
    from torch import Generator, Tensor

Request = tuple[str, Sequence[str]]


class RerankerTests(PluginTests):
    """Tests of a reranker. Set `plugin`; `tolerance` limits score differences (batches change the last bits).

    `lookahead` is the number of requests that the reranker may read before its first answer.
    """

    tolerance: ClassVar[float] = TOLERANCE
    lookahead: ClassVar[int] = LOOKAHEAD

    def requests(self) -> list[Request]:
        """Return five queries with up to six documents each; one query has none, and one document is empty."""
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
        rule(len(answers) == len(requests), "there is one answer per request", f"{len(answers)} for {len(requests)}")
        lengths = [len(scores) for scores in answers], [len(documents) for _, documents in requests]
        rule(lengths[0] == lengths[1], "an answer has one score per document, in the same order", lengths[0])
        rule(all(np.isfinite(scores).all() for scores in answers), "scores are finite")
        rule(not self._scores(tmp_path, []), "there is no answer without a request")

    def test_an_empty_document_list(self, tmp_path: Path) -> None:
        try:
            answers = self._scores(tmp_path, [("river", [])])
        except Exception as error:
            raise AssertionError(
                f"broken rule: an empty list of documents is not an error\n  found: {error!r}"
            ) from error
        rule(answers == [[]], "an empty list of documents gets an empty list of scores", answers)

    def test_other_requests_have_no_effect(self, tmp_path: Path) -> None:
        text = "the scores of a request depend only on the request"
        check_independent(lambda some: self._scores(tmp_path, some), self.requests(), text, "requests", self._close)

    def _close(self, one: list[list[float]], two: list[list[float]]) -> bool:
        pairs = zip(one, two, strict=True)
        return all(len(a) == len(b) and np.allclose(a, b, rtol=self.tolerance, atol=self.tolerance) for a, b in pairs)

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of requests."""
        requests = (("river", ["an old river"]) for _ in range(self.lookahead))
        next(iter(self.make(tmp_path).rerank(lazily(requests, "requests", self.lookahead))))


class TrainableRerankerTests(RerankerTests):
    """Tests of a reranker that can be trained.

    `rounding` is the maximum difference from 32-bit scores, for a plugin that computes in 16 bits.
    """

    rounding: ClassVar[float] = 0.02

    def _pairs(self) -> list[tuple[str, str]]:
        return [(query, text) for query, documents in self.requests() for text in documents]

    def _outputs(self, network: Any) -> NDArray[np.float32]:
        outputs: NDArray[np.float32] = network.to("cpu").predict(self._pairs(), show_progress_bar=False)
        return outputs

    def test_loads_the_same_network_each_time(self, tmp_path: Path) -> None:
        """Weights that are not in the source, such as a new head, must depend only on the plugin's seed."""
        import torch

        plugin, outputs = self.make(tmp_path), []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            outputs.append(self._outputs(plugin.load(None)))
            rule(bool(torch.equal(before, torch.get_rng_state())), "loading does not change torch's random state")
        rule(bool(np.array_equal(outputs[0], outputs[1])), "`load(None)` always returns the same weights", outputs)

    def test_a_network_of_one_or_two_outputs(self, tmp_path: Path) -> None:
        from sentence_transformers import CrossEncoder

        network = self.make(tmp_path).load(None)
        rule(isinstance(network, CrossEncoder), "`load` returns a sentence_transformers.CrossEncoder", type(network))
        rule(network.num_labels in (1, 2), "the network has one or two outputs", network.num_labels)
        rule(not network.training, "the network is in evaluation mode")
        rule(isinstance(network.max_seq_length, int), "`max_seq_length` is a whole number", network.max_seq_length)

    def test_its_own_scores_are_the_networks(self, tmp_path: Path) -> None:
        import torch

        plugin = self.make(tmp_path)
        network = plugin.load(None).to("cpu")
        raw = torch.from_numpy(network.predict(self._pairs(), activation_fn=torch.nn.Identity()))
        logits = raw.reshape(len(raw), -1)
        expected = network.activation_fn(logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)).tolist()
        actual = [score for scores in self._scores(tmp_path, self.requests()) for score in scores]
        near = np.allclose(actual, expected, rtol=self.rounding, atol=self.rounding)
        rule(near, "`rerank` returns the network's scores", f"{actual} instead of {expected}")

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
        rule(near, "`load(folder)` returns the network that was saved there")
        rule(again.max_seq_length == network.max_seq_length, "`load(folder)` keeps `max_seq_length`")

    def test_the_fingerprint_names_the_content(self, tmp_path: Path) -> None:
        plugin = self.make(tmp_path)
        name = plugin.fingerprint()
        rule(isinstance(name, str) and bool(name), "`fingerprint` is a non-empty string", name)
        rule(plugin.fingerprint() == name, "`fingerprint` is the same for the same content")


_MASKS = ("positive", "own", "valid")
_GUIDES = ("guide", "guide_query_query", "guide_document_document")
_OWN = ("query_query", "document_document")
_OPTIONAL = ("ranks", "teacher", "weights", *_GUIDES, *_OWN)
_MATRICES = ("scores", *_MASKS, "ranks", "teacher", "guide")
_OF_ROWS, _OF_COLUMNS = ("guide_query_query", "query_query"), ("guide_document_document", "document_document")


class LossTests(PluginTests):
    """Tests of a loss. Set `plugin`; its class lists in `needs` the optional parts of a `ScoreBatch` that it requires.

    needs: further optional parts to include in the batch of these tests. scale: largest score in ordinary batches; the
    loss must be differentiable up to it. stops_gradients: whether the loss treats some scores as constant weights.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    scale: ClassVar[float] = 0.9
    stops_gradients: ClassVar[bool] = False

    def batch(self) -> ScoreBatch:
        """Return float64 scores [4, 12] of four queries with four positives and eight negatives. Some are not `valid`.

        If needed, there are a teacher's scores of each query's own documents, and a guide's scores of all pairs.
        """
        import torch

        source = torch.Generator().manual_seed(11)
        scores = (torch.rand(4, 12, generator=source, dtype=torch.float64) * 2 - 1) * self.scale
        row, column = torch.arange(4)[:, None], torch.arange(12)[None, :]
        positive, own = column == row, (column - 4) // 2 == row
        valid = ~((column == 3) & (row == 0) | (column == 5) & (row == 1) | (column == 11) & (row != 1))
        ranks = torch.where(own, column % 2 + 1 + row, 0)
        teacher = torch.rand(4, 12, generator=source, dtype=torch.float64) + positive * 2
        teacher = teacher.masked_fill(~(positive | own), torch.nan)
        parts = {"ranks": ranks, "teacher": teacher, "weights": torch.ones(4, dtype=torch.float64)}
        parts |= _with_each_other(source, self.scale)
        needs = {*self.needs, *needs_of(self.plugin)}
        optional = {name: part for name, part in parts.items() if name in needs}
        return ScoreBatch(scores, positive, own & ~positive, valid | positive, **optional)

    def _learn(self, folder: Path, batch: ScoreBatch) -> "tuple[Tensor, Tensor]":
        scores = batch.scores.detach().clone().requires_grad_()
        value = self.make(folder)(replace(batch, scores=scores))
        rule(tuple(value.shape) == (), "a loss is a scalar", f"shape {tuple(value.shape)}")
        rule(value.requires_grad, "a loss has `requires_grad` set, even if its gradient is zero")
        value.backward()
        gradient = scores.grad
        return value.detach(), scores.detach() * 0 if gradient is None else gradient

    def test_says_what_it_needs(self, tmp_path: Path) -> None:
        said = getattr(self.make(tmp_path), "needs", ())
        known = isinstance(said, tuple) and {*said} <= {*_OPTIONAL}
        rule(known, f"`needs` is a tuple of optional parts of a batch: {', '.join(_OPTIONAL)}", repr(said))

    def test_a_scalar_that_learns(self, tmp_path: Path) -> None:
        value, gradient = self._learn(tmp_path, self.batch())
        rule(bool(value.isfinite()), "a loss is finite", value)
        rule(bool(gradient.any()), "a batch with positives and negatives has a non-zero gradient")

    def test_optional_parts_may_be_there(self, tmp_path: Path) -> None:
        import torch

        batch = self.batch()
        wide = torch.ones_like(batch.scores)
        more = {"weights": wide[:, 0], "ranks": wide.long(), "teacher": wide}
        more |= _with_each_other(torch.Generator().manual_seed(3), self.scale)
        value, _ = self._learn(tmp_path, replace(batch, **{**more, **_there(batch, _OPTIONAL)}))
        rule(bool(value.isfinite()), "a loss accepts optional parts that it does not need", value)

    def test_finite_for_scores_of_any_size(self, tmp_path: Path) -> None:
        batch = self.batch()
        for size in (1e4, -1e4, 1e2):
            extreme = (size - 2 * size * batch.positive).float(), (batch.scores * size / self.scale).float()
            for scores in (*extreme, *(each.bfloat16() for each in extreme)):
                value, gradient = self._learn(tmp_path, replace(batch, scores=scores))
                finite = bool(value.isfinite()) and bool(gradient.isfinite().all())
                rule(finite, "value and gradient are finite for scores of any size", f"{value} for ±{abs(size):g}")

    def test_bfloat16_scores(self, tmp_path: Path) -> None:
        scores = self.batch().scores.bfloat16()
        half, _ = self._learn(tmp_path, replace(self.batch(), scores=scores))
        rule(half.dtype.itemsize >= 4, "the loss of bfloat16 scores is computed in 32 bits", f"a value of {half.dtype}")
        whole, _ = self._learn(tmp_path, replace(self.batch(), scores=scores.float()))
        near = abs(float(half) - float(whole)) <= 1e-3 * abs(float(whole)) + 1e-6
        rule(near, "the loss of bfloat16 scores is computed in 32 bits", f"{float(half)} instead of {float(whole)}")

    def test_nothing_to_learn(self, tmp_path: Path) -> None:
        batch = self.batch()
        own = {name: part.new_full(part.shape, -inf) for name, part in _there(batch, _OWN).items()}
        value, gradient = self._learn(tmp_path, replace(batch, valid=batch.positive.clone(), **own))
        rule(float(value) == 0, "the loss is 0 if no row has a negative", float(value))
        rule(not bool(gradient.any()), "the gradient is 0 if no row has a negative")

    def test_masked_scores_do_not_count(self, tmp_path: Path) -> None:
        batch = self.batch()
        value, gradient = self._learn(tmp_path, batch)
        rule(not bool(gradient[~batch.valid].any()), "scores where `valid` is false get no gradient")
        changed = batch.scores.where(batch.valid, batch.scores + 50)
        other, _ = self._learn(tmp_path, replace(batch, scores=changed))
        rule(bool(value.isclose(other)), "scores where `valid` is false have no effect", f"{value}, {other}")

    def test_the_order_of_rows_and_columns_has_no_effect(self, tmp_path: Path) -> None:
        import torch

        batch = self.batch()
        source = torch.Generator().manual_seed(5)
        rows, columns = torch.randperm(4, generator=source), torch.randperm(12, generator=source)
        value, _ = self._learn(tmp_path, batch)
        for what, both, order in (("rows", _OF_ROWS, rows), ("columns", _OF_COLUMNS, columns)):
            turn = order if what == "rows" else (slice(None), order)
            moved = replace(batch, **{name: part[turn] for name, part in _there(batch, _MATRICES).items()})
            moved = replace(moved, **{name: part[order][:, order] for name, part in _there(batch, both).items()})
            if batch.weights is not None and what == "rows":
                moved = replace(moved, weights=batch.weights[rows])
            other, _ = self._learn(tmp_path, moved)
            rule(bool(torch.isclose(value, other)), f"the order of {what} has no effect", f"{value}, {other}")

    def test_the_gradient_is_the_derivative(self, tmp_path: Path) -> None:
        """Compare with finite differences in 64 bits; a loss that stops gradients differs."""
        import torch

        batch, loss = self.batch(), self.make(tmp_path)
        scores, result = batch.scores.clone().requires_grad_(), "the gradient is the derivative"
        try:
            torch.autograd.gradcheck(lambda values: loss(replace(batch, scores=values)), scores)
        except Exception as error:
            result = str(error)
        same = result == "the gradient is the derivative"
        rule(same or self.stops_gradients, "the gradient is the derivative, in 64 bits", result)
        rule(not (same and self.stops_gradients), "with `stops_gradients`, the gradient is not the derivative", result)

    def test_is_a_pure_function(self, tmp_path: Path) -> None:
        batch, loss = self.batch(), self.make(tmp_path)
        before = {name: getattr(batch, name).clone() for name in ("scores", *_MASKS)}
        first, second = float(loss(batch)), float(loss(batch))
        rule(first == second, "the same batch has the same loss", f"{first}, then {second}")
        changed = [name for name, part in before.items() if not bool((part == getattr(batch, name)).all())]
        rule(not changed, "a loss does not change its batch", changed)


def _there(batch: ScoreBatch, names: tuple[str, ...]) -> "dict[str, Tensor]":
    return {name: part for name in names if (part := getattr(batch, name)) is not None}


def _with_each_other(source: "Generator", scale: float) -> "dict[str, Tensor]":
    """Return a guide's scores of all pairs of queries and documents, and the model's of equal sides; float64."""
    import torch

    def drawn(rows: int, columns: int) -> "Tensor":
        return (torch.rand(rows, columns, generator=source, dtype=torch.float64) * 2 - 1) * scale

    owner = torch.cat([torch.arange(4), torch.arange(8) // 2])
    same = {"query_query": torch.eye(4, dtype=torch.bool), "document_document": owner[:, None] == owner}
    guides = {"guide": drawn(4, 12), "guide_query_query": drawn(4, 4), "guide_document_document": drawn(12, 12)}
    return guides | {name: drawn(*mask.shape).masked_fill(mask, -torch.inf) for name, mask in same.items()}
