"""Verb `average`: one model whose weights are the mean of several models'."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat, model_validator

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import OwnCut, Reference
from hardneg.records.errors import UsageError
from hardneg.records.layout import MODEL_FOLDER
from hardneg.records.wording import suggestion
from hardneg.runtime.distributed import world
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.seeded import BySeed, SeededStages, by_label
from hardneg.verbs.shared.stage_spec import RecipeView, Row, Sizes
from hardneg.verbs.shared.train_config import ValidationOptions

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


class Average(ValidationOptions):
    """Averages the weights of models of one architecture: seeds, checkpoints, a start and what it became.

    models: by label; one that is made once a seed is all of its seeds, which share its weight. weights: by label, 1
    where none is given. choose: `all`, or `greedy`, from the best on the dev queries on, each that does no harm there,
    by `metric` over the pool that `validation_run` and `validation` make, as in a training.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = MODEL_FOLDER
    every_process = True
    needs_dataset = True
    purpose = "average the weights of several models into one"
    stage: Literal["average"]
    models: Annotated[dict[str, BySeed], Reference(("model",)), Field(min_length=1)]
    weights: Mapping[str, PositiveFloat] = Field(default_factory=dict)
    choose: Literal["all", "greedy"] = "all"
    metric: Literal["mrr@10", "ndcg@10", "recall@100"] = "mrr@10"
    segments: OwnCut = None

    @model_validator(mode="after")
    def _complete(self) -> "Average":
        for label in self.weights:
            if label not in self.models:
                raise ValueError(f"weights: no model is called {label!r}{suggestion(label, self.models)}")
        if (greedy := self.choose == "greedy") and self.weights:
            raise ValueError("weights: a greedy average has none; leave them out, or `choose: all`")
        if greedy and self.validation_run is None:
            raise ValueError("validation_run: missing; name a run of the dev queries")
        if not greedy and self.validation_run is not None:
            raise ValueError("validation_run: only with `choose: greedy`")
        return self

    def identity(self) -> dict[str, Any]:
        """The share of each model; the first one's tokenizer and prompts are the average's, so the order counts."""
        return {**super().identity(), "weights": self.shares, "order": list(self.shares)}

    @property
    def shares(self) -> dict[str, float]:
        """The weight of each model by its path below `models`; seeds of one label share its weight evenly."""
        paths = by_label(self.models)
        count = {label: sum(label == other for other, _ in paths.values()) for label in self.models}
        return {path: self.weights.get(label, 1.0) / count[label] for path, (label, _) in paths.items()}

    def over_seeds(self, seeds: SeededStages) -> "Average":
        """A model that is made once a seed stands for all of its seeds."""
        models = {label: seeds.of(name) if isinstance(name, str) else name for label, name in self.models.items()}
        return self.model_copy(update={"models": models})

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        first = next(iter(self.models.values()))
        return recipe.model_of(first if isinstance(first, str) else next(iter(first.values())))

    def estimate(self, sizes: Sizes) -> Row:
        return Row(len(self.shares), "models", sizes.shape.weights)

    def make(self, context: "StageContext[Average]") -> Facts:
        """Writes the model, with the tokenizer, prompts and lengths of the first.

        Raises:
            ModelError: the models are not of one architecture, or cannot be averaged.
            UsageError: there is one model alone.
        """
        from hardneg.encoders.open.model_card import model_card
        from hardneg.encoders.open.resolved import learner
        from hardneg.training.averaging import greedy, weighted
        from hardneg.verbs.shared.inputs import open_collection, open_encoder

        if not world().first:
            return {}
        if len(self.shares) < 2:
            advice = "name another one, or give the recipe `seeds`"
            raise UsageError(f"{context.name}.models: one model is its own average; {advice}")

        def open_model(path: str) -> "Encoder":
            return learner(open_encoder(context.inputs[f"models.{path}"], context.device))

        facts: dict[str, object] = {"models": len(self.shares)}
        if self.choose == "greedy":
            collection = open_collection(context.inputs["dataset"])

            def measure(encoder: "Encoder") -> float:
                judge = self.judge(context, collection, encoder)
                assert judge is not None  # a greedy average has a `validation_run`
                return judge()[self.metric]

            encoder, chosen, alone = greedy(open_model, list(self.shares), measure)
            facts |= {"chosen": chosen, f"dev {self.metric}": alone}
        else:
            encoder = weighted(open_model, self.shares)
        said = {"Average of": ", ".join(self.shares), **facts}
        encoder.save(context.folder / MODEL_FOLDER, card=model_card(encoder, said))
        return facts
