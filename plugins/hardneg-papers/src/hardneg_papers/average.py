"""Stage `average`: one model whose weights are the mean of several models'."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat

from hardneg.plugin import (
    Encoder,
    distributed,
    errors,
    fields,
    layout,
    model_specs,
    resolving,
    stage_context,
    stage_spec,
)


class Average(stage_spec.StageSpec):
    """Averages the weights of models of one architecture: seeds, checkpoints, a start and what it became.

    models: by label; one that is made once a seed is all of its seeds, which share its weight. weights: by label, 1
    where none is given.

    Source: Wortsman et al., Model soups (ICML 2022), uniform soup; Xiao et al., LM-Cocktail (2023), Eq. 1.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = layout.MODEL_FOLDER
    every_process = True
    needs_dataset = True
    inherits = ()
    purpose = "average the weights of several models into one"
    stage: Literal["average"]
    models: Annotated[
        dict[str, fields.Name | dict[int, fields.Name]], fields.Reference(("model",)), Field(min_length=1)
    ]
    weights: Mapping[str, PositiveFloat] = Field(default_factory=dict)

    @property
    def shares(self) -> dict[str, float]:
        """The weight of each model by its path below `models`; seeds of one label share its weight evenly."""
        shares: dict[str, float] = {}
        for label, names in self.models.items():
            paths = [label] if isinstance(names, str) else [f"{label}.{seed}" for seed in names]
            shares |= dict.fromkeys(paths, self.weights.get(label, 1.0) / len(paths))
        return shares

    def problems(self, recipe: stage_spec.RecipeView) -> Iterator[str]:
        for label in self.weights.keys() - self.models.keys():
            yield f"weights: no model is called {label!r}; there are: {', '.join(self.models)}"

    def identity(self) -> dict[str, Any]:
        """The share of each model; the first one's tokenizer and prompts are the average's, so the order counts."""
        validation = {"split": "dev", "depth": 20, "queries": None}
        fixed = {"validation": validation, "choose": "all", "metric": "mrr@10", "segments": None}  # as stores have it
        return {**fixed, "weights": self.shares, "order": list(self.shares)}

    def over_seeds(self, seeds: Any) -> "Average":
        """A model that is made once a seed stands for all of its seeds."""
        models = {label: seeds.of(name) if isinstance(name, str) else name for label, name in self.models.items()}
        return self.model_copy(update={"models": models})

    def began_with(self, recipe: stage_spec.RecipeView) -> model_specs.ModelSpec:
        first = next(iter(self.models.values()))
        return recipe.model_of(first if isinstance(first, str) else next(iter(first.values())))

    def estimate(self, sizes: stage_spec.Sizes) -> stage_spec.Row:
        return stage_spec.Row(len(self.shares), "models", sizes.shape.weights)

    def make(self, context: "stage_context.StageContext[Average]") -> stage_context.Facts:
        """Writes the model, with the tokenizer, prompts and lengths of the first.

        Raises:
            ModelError: the models are not of one architecture and vocabulary, or cannot be averaged.
            UsageError: there is one model alone.
        """
        if not distributed.world().first:
            return {}
        (first, share), *rest = self.shares.items()
        if not rest:
            advice = "name another one, or give the recipe `seeds`"
            raise errors.UsageError(f"{context.name}.models: one model is its own average; {advice}")

        def opened(path: str) -> Encoder:
            source = context.inputs[f"models.{path}"]
            encoder = resolving.load_encoder(source.model or source.folder / layout.MODEL_FOLDER, context.device)
            if not isinstance(encoder, Encoder) or encoder.spec.adapter is not None:
                raise errors.ModelError(
                    f"{path}: has no weights of its own here to average; name a model without an adapter"
                )
            return encoder

        mean = opened(first)
        whole = {name: tensor.detach().clone() for name, tensor in mean.module.state_dict().items()}
        sums = {name: tensor.float() * share for name, tensor in whole.items() if tensor.is_floating_point()}
        for path, weight in rest:
            other = opened(path)
            check_alike(mean, other, path)
            for name, tensor in other.module.state_dict().items():
                if name in sums:
                    sums[name] += tensor.float() * weight
        means = {name: tensor / sum(self.shares.values()) for name, tensor in sums.items()}
        if broken := next((name for name, tensor in means.items() if not tensor.isfinite().all()), None):
            raise errors.ModelError(
                f"the mean of {broken} is not finite: check the models' weights, and give smaller shares"
            )
        mean.module.load_state_dict({**whole, **means})
        mean.save(context.folder / layout.MODEL_FOLDER)
        return {"models": len(self.shares)}


def check_alike(first: Encoder, other: Encoder, name: str) -> None:
    """Refuse a model of another architecture, vocabulary or pooling than the first. Raises ModelError."""
    advice = "average models of one architecture and vocabulary"
    own, others = (each.module.state_dict() for each in (first, other))
    for weight in {**own, **others}:
        shape, expected = (tuple(each[weight].shape) if weight in each else "missing" for each in (others, own))
        if shape != expected:
            raise errors.ModelError(f"{name}: {weight} is {shape}, in the first {expected}; {advice}")
    if first.module.tokenizer.get_vocab() != other.module.tokenizer.get_vocab():
        raise errors.ModelError(f"{name}: the vocabulary is not that of the first; {advice}")
    for part, of_other in zip([*first.module][1:], [*other.module][1:], strict=True):
        options = [each.get_config_dict() if hasattr(each, "get_config_dict") else {} for each in (part, of_other)]
        if type(part) is not type(of_other) or options[0] != options[1]:
            raise errors.ModelError(f"{name}: module {type(of_other).__name__} is not as in the first; {advice}")
