"""The stage `average`, which averages the weights of several models into one."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat

import hardneg.plugin as hn

_TOKENS = ("normalizer", "pre_tokenizer")
_FREE = re.compile(
    r"_.*|.*version|architectures|.*dtype|.*dropout.*|.*label.*|initializer_range|problem_type|use_cache|output_\w+"
    r"|return_dict|.*_length"
)
"""Settings of a model that do not affect vectors, or that are copied from the first model."""


class Average(hn.stages.StageSpec):
    """Average the weights of models of one architecture: seeds, checkpoints, or a model before and after training.

    models: models by label; if a model has several seeds, all of them are averaged and share its weight equally.
    weights: weights by label, 1 by default.

    Source: Wortsman et al., Model soups (ICML 2022), uniform soup; Xiao et al., LM-Cocktail (2023), Eq. 1.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = hn.layout.MODEL_FOLDER
    every_process = True
    needs_dataset = reads_all_seeds = True
    inherits = ()
    purpose = "average the weights of several models into one"
    stage: Literal["average"]
    models: Annotated[
        dict[str, hn.fields.Name | dict[int, hn.fields.Name]], hn.fields.Reference(("model",)), Field(min_length=1)
    ]
    weights: Mapping[str, PositiveFloat] = Field(default_factory=dict)

    @property
    def shares(self) -> dict[str, float]:
        """The weight of each model, by `LABEL` or, for several seeds, `LABEL.SEED`; seeds share a weight equally."""
        shares: dict[str, float] = {}
        for label, names in self.models.items():
            paths = [label] if isinstance(names, str) else [f"{label}.{seed}" for seed in names]
            shares |= dict.fromkeys(paths, self.weights.get(label, 1.0) / len(paths))
        return shares

    def problems(self, recipe: hn.stages.RecipeView) -> Iterator[str]:
        for label in self.weights.keys() - self.models.keys():
            yield f"weights: no model is called {label!r}; available: {', '.join(self.models)}"

    def identity(self) -> dict[str, Any]:
        """Return the settings in the key, with the models' order: the first one provides tokenizer and prompts."""
        validation = {"split": "dev", "depth": 20, "queries": None}
        fixed = {"validation": validation, "choose": "all", "metric": "mrr@10", "segments": None}  # as stores have it
        return {**fixed, "weights": self.shares, "order": list(self.shares)}

    def completed(self, recipe: hn.stages.RecipeView, written: Mapping[str, Any], notes: list[str]) -> "Average":
        """Return a copy of the stage in which models with several seeds are replaced by their stages, keyed by seed."""
        seeds = recipe.seeded
        models = {label: seeds.of(name) if isinstance(name, str) else name for label, name in self.models.items()}
        return self.model_copy(update={"models": models})

    def estimate(self, sizes: hn.stages.Sizes) -> hn.stages.Row:
        return hn.stages.Row(len(self.shares), "models", sizes.shape.weights)

    def make(self, context: "hn.StageContext[Average]") -> hn.stages.Facts:
        """Write the average, with the first model's tokenizer, prompts and lengths; return the number of `models`.

        Raises:
            ModelError: the models are not of one architecture and vocabulary, or cannot be averaged.
            UsageError: there is only one model.
        """
        if hn.runtime.world().rank > 0:
            return {}
        (first, share), *rest = self.shares.items()
        if not rest:
            advice = "add another one, or use `seeds` in the recipe"
            raise hn.errors.UsageError(f"{context.name}.models: cannot average a single model; {advice}")

        def opened(path: str) -> hn.encoders.Encoder:
            source = context.inputs[f"models.{path}"]
            encoder = hn.load_encoder(source.model or source.folder / hn.layout.MODEL_FOLDER, context.device)
            if not isinstance(encoder, hn.encoders.Encoder) or encoder.spec.adapter is not None:
                raise hn.errors.ModelError(
                    f"{path}: has no complete weights to average; use a model without an adapter"
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
            raise hn.errors.ModelError(f"the mean of {broken} is not finite; check the models, or use smaller weights")
        mean.module.load_state_dict({**whole, **means})
        mean.save(context.folder / hn.layout.MODEL_FOLDER)
        return {"models": len(self.shares)}


def check_alike(first: hn.encoders.Encoder, other: hn.encoders.Encoder, name: str) -> None:
    """Raise ModelError if two models differ in names or shapes of weights, or in settings. name: label of `other`."""
    told, expected = _settings(other), _settings(first)
    if found := [each for each in {**expected, **told} if told.get(each) != expected.get(each)]:
        advice = "use models of one architecture and vocabulary"
        raise hn.errors.ModelError(f"{name}: {found[0]} differs from the first model's; {advice}")


def _settings(encoder: hn.encoders.Encoder) -> dict[str, Any]:
    """Return the shapes of the weights and the other settings that affect encoding, by module and name."""
    weights = encoder.module.state_dict().items()
    settings = {name: weight.shape if weight.is_floating_point() else weight.tolist() for name, weight in weights}
    for path, part in encoder.module.named_modules():
        told = {"module": type(part).__name__} | part.get_config_dict() if hasattr(part, "get_config_dict") else {}
        told |= part.auto_model.config.to_dict() if hasattr(part, "auto_model") else {}
        tokenizer: Any = getattr(part, "tokenizer", None)
        if hasattr(backend := getattr(tokenizer, "backend_tokenizer", tokenizer), "to_str"):
            told |= {f"the tokenizer's {name}": json.loads(backend.to_str())[name] for name in _TOKENS}
        settings |= {f"{name} of {path}": value for name, value in told.items() if not _FREE.fullmatch(name)}
    return settings | {"the vocabulary": encoder.module.tokenizer.get_vocab()}
