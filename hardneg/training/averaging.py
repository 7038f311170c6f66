"""Averages of models' weights: uniform, weighted, or chosen one by one on dev queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.towers import route
from hardneg.records.errors import ModelError

Open = Callable[[str], Encoder]
"""A model by its label; each call reads it anew, so that one of them is in memory at a time."""


@dataclass(frozen=True)
class WeightSum:
    """A sum of weights, each model's times its share; `total`: the sum of the shares.

    sums: float32 tensors by their names in the first model. kept: what has no floating point, which must be the same
    in all, as must be the settings: the modules and the vocabulary of queries.
    """

    first: str
    sums: dict[str, Tensor]
    kept: dict[str, Tensor]
    total: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, label: str, encoder: Encoder, share: float) -> "WeightSum":
        if encoder.spec.adapter is not None:
            reason = "the average of adapters' factors is not that of what they add"
            raise ModelError(f"{label}: is an adapter on another model, and {reason}; train it without an adapter")
        weights = encoder.module.state_dict()
        floating = {name: tensor for name, tensor in weights.items() if tensor.is_floating_point()}
        sums = {name: tensor.detach().float() * share for name, tensor in floating.items()}
        kept = {name: weights[name].clone() for name in weights.keys() - sums.keys()}
        parts = route(encoder.module, "query")
        modules = [type(part).__name__ for part in parts]
        return cls(label, sums, kept, share, {"modules": modules, "the vocabulary": parts[0].tokenizer.get_vocab()})

    def plus(self, other: "WeightSum") -> "WeightSum":
        """Both in one.

        Raises:
            ModelError: they are not of one architecture and vocabulary.
        """
        own, others = {**self.sums, **self.kept}, {**other.sums, **other.kept}
        wrong = []
        for name in {**own, **others}:
            shape, expected = (tuple(each[name].shape) if name in each else "missing" for each in (others, own))
            if shape != expected:
                wrong.append(f"{name} is {shape}, in {self.first} {expected}")
            elif name in self.kept and not torch.equal(self.kept[name], others[name]):
                wrong.append(f"{name} differs")
        changed = [name for name, value in self.settings.items() if other.settings.get(name) != value]
        wrong += [f"{name} is not as in {self.first}" for name in changed]
        if wrong:
            raise ModelError(f"{other.first}: {wrong[0]}; average models of one architecture and vocabulary")
        sums = {name: tensor + other.sums[name] for name, tensor in self.sums.items()}
        return WeightSum(self.first, sums, self.kept, self.total + other.total, self.settings)

    def written_to(self, encoder: Encoder) -> Encoder:
        """The encoder with the mean as its weights. Raises ModelError if a number of it is not finite."""
        means = {name: tensor / self.total for name, tensor in self.sums.items()}
        if broken := next((name for name, mean in means.items() if not mean.isfinite().all()), None):
            raise ModelError(f"the mean of {broken} is not finite: check the models' weights, and give smaller shares")
        encoder.module.load_state_dict({**means, **self.kept})
        return encoder


def weighted(open_model: Open, shares: Mapping[str, float]) -> Encoder:
    """The mean of several models' weights by their shares; LM-Cocktail's form with a start and what it became.

    Source: Wortsman et al., Model soups (ICML 2022), uniform soup; Xiao et al., LM-Cocktail (2023), Eq. 1.

    Raises:
        ModelError: a model is an adapter, or they are not of one architecture.
    """
    (first, share), *rest = shares.items()
    total = WeightSum.of(first, open_model(first), share)
    for label, share in rest:
        total = total.plus(WeightSum.of(label, open_model(label), share))
    return total.written_to(open_model(first))


def greedy(
    open_model: Open, labels: Sequence[str], measure: Callable[[Encoder], float]
) -> tuple[Encoder, list[str], dict[str, float]]:
    """The mean of the models that help: from the best on, each is kept if the mean with it measures no less.

    Returns the mean, the labels that it is of, and the measure of each model alone.

    Source: Wortsman et al., Model soups (ICML 2022), Recipe 1.

    Raises:
        ModelError: as `weighted`.
    """
    alone = {label: measure(open_model(label)) for label in labels}
    best, *rest = sorted(labels, key=lambda label: -alone[label])
    chosen, reached = [best], alone[best]
    total = WeightSum.of(best, open_model(best), 1.0)
    for label in rest:
        tried = total.plus(WeightSum.of(label, open_model(label), 1.0))
        if (measured := measure(tried.written_to(open_model(best)))) >= reached:
            chosen, reached, total = [*chosen, label], measured, tried
    return total.written_to(open_model(best)), chosen, alone
