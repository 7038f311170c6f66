"""The one stage that trains, and its options in groups: a verb has those that it names among its bases.

A verb says by `opened` which method learns from what; `TrainConfig.make` does the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LATER, MEASURED, LossSetting, Name, OwnCut, Reference, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.formats.runs import lists_in_order
from hardneg.formats.segments import Segments
from hardneg.losses import TEMPERATURE
from hardneg.records import layout, types, wording
from hardneg.registry import load_plugin, needs_of, plugin_names
from hardneg.runtime.distributed import world
from hardneg.stages.base import FORM_WORDS, ArtifactInput, Facts, RecipeView, Row, Sizes, StageContext, StageSpec
from hardneg.stages.inputs import open_collection
from hardneg.store.artifacts import KEPT, SCRATCH
from hardneg.store.identity import options_in_key
from hardneg.training.options import LearningOptions, gathered

Validate = Callable[[], Mapping[str, float]]
Told = Callable[[Any], tuple[Facts, Facts]]
"""What a verb tells of a finished training (`TrainingResult`) on the model's card, and in the manifest."""


class OptionGroup(StageSpec):
    """A group of options of the verbs that train.

    gives: the optional parts of a `ScoreBatch` that the verb's batches have, for losses that need them. A group's
    `mistakes` are lines as of `problems`, and its `withheld` those of `gives` that its options leave out, with advice.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:  # what a group reads of others, where the verb has them
        loss: types.PluginSetting
        options: LearningOptions
        segments: Segments | None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """The mistakes of the verb and of its groups."""
        return gathered(self, "mistakes", recipe)


def of_the_run(options: type[LearningOptions]) -> Any:
    """The field `options` of a verb."""
    return Field(default_factory=options, description="Of the training run: steps, negatives, optimizer, precision.")


class TrainConfig(OptionGroup):
    """The loss and its options; the stage of every verb that trains.

    judged: what the dev metric is taken over, in the words of the model's card.
    """

    needs_dataset = resumes = every_process = True
    artifact_folder = layout.MODEL_FOLDER
    judged: ClassVar[str] = "over a pool"
    loss: LossSetting = Field(description="A loss; `hardneg plugins list` shows them.")
    options: Annotated[LearningOptions, AfterValidator(without_problems)] = of_the_run(LearningOptions)

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A loss that needs what the batches lack, and margins of a teacher that is not there."""
        withheld: dict[str, str] = dict(reversed([*gathered(self, "withheld")]))
        lacking = [part for part in needs_of(recipe.plugin("loss")) if part in withheld or part not in self.gives]
        if {*lacking} <= {*withheld} & {*self.gives}:
            yield from dict.fromkeys(withheld[part] for part in lacking)
        else:
            gives = {verb: getattr(load_plugin("stages", verb), "gives", ()) for verb in plugin_names("stages")}
            fitting = [verb for verb, parts in gives.items() if {*lacking} <= {*parts}]
            use = f"use it in stage {' or '.join(fitting)}, or " if fitting else "no stage gives that: "
            lack = f"{self.loss.name} needs {', '.join(lacking)}, which this stage's batches lack"
            yield f"loss: {lack}; {use}take another loss"
        if self.options.negatives_drawn == "margin_bins" and getattr(self, "teacher", None) is None:
            yield "options.negatives_drawn: margin_bins are of the scores of a teacher's run; name one, or leave it out"

    def settings(self, source: ArtifactInput) -> Mapping[str, object]:
        figures = {name: value for name, value in source.facts.items() if isinstance(value, int | float)}
        return {"loss": source.plugins["loss"], **options_in_key(self.options), **figures}

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"checkpoints/{recipe.name}": KEPT}

    @property
    def batch(self) -> str:
        """A batch in the words of the model's card."""
        return f"{self.options.batch_size * self.options.accumulate} queries"

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> tuple[Any, Told]:
        """The method (`ExampleTraining`) with its network and data, what is told in the end; `ending` is left then."""
        raise NotImplementedError(f"stage {self.verb} has no method")

    def judge(self, context: StageContext[Any], collection: StoredCollection, network: Any) -> Validate | None:
        """Measures the network as it is; None where the recipe names nothing to judge by."""
        return None

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        """Saves the network with a card of these facts."""
        raise NotImplementedError(f"stage {self.verb} saves no network")

    def make(self, context: "StageContext[Any]") -> Facts:
        """Trains, saves the network with its card, and leaves the learning curve beside it."""
        from hardneg.training.loop import learn

        loss, options = context.plugins["loss"], self.options
        collection = open_collection(context.inputs["dataset"])
        with ExitStack() as ending:
            way, told = self.opened(context, collection, ending)
            judge = self.judge(context, collection, way.encoder)
            result = learn(way, loss, options, context.folder, progress=context.progress, validate=judge)
        if not world().first:
            return {}
        facts, more = told(result)
        rate = f"{options.optimizer}, peak learning rate {options.learning_rate:g}, seed {options.seed}"
        card = {**facts, "Loss": loss, "Training": f"{wording.counted(result.steps, 'step')} of {self.batch}, {rate}"}
        if result.best is not None:
            card[f"Dev {options.metric}, {self.judged}"] = f"{result.best:.4f} at step {result.best_step}"
        self.save(context, way.encoder, card)
        context.keep_only(*self.parts.values(), KEPT, layout.HISTORY, SCRATCH)
        return {**result.facts(options.metric), **more}


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class ValidationOptions(OptionGroup):
    """The run and the queries that the model is judged by while it trains."""

    validation_run: Annotated[Name | None, MEASURED] = Field(
        default=None,
        description="The run whose top, with the positives, is the pool to judge by; none: no dev metrics.",
    )
    validation: Validation = Field(
        default=Validation(),
        description="On how many queries of which split, and how many documents (`depth`) of that run.",
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A `validation_run` of other queries than those of the split."""
        split, own = getattr(recipe.stages.get(self.validation_run or ""), "split", None), self.validation.split
        if split not in (None, own):
            mismatch = f"{self.validation_run!r} is of split {split}, and validation.split is {own}"
            yield f"validation_run: {mismatch}; name a run of the same split"

    def judge(self, context: StageContext[Any], collection: StoredCollection, network: Any) -> Validate | None:
        """Measures a network on the dev queries; None where the recipe names no run to take the pool from."""
        from hardneg.training.validation import ValidationData

        if "validation_run" not in context.inputs:
            return None
        queries, options = collection.queries(self.validation.split), self.validation
        query_ids, texts = queries.query_ids[: options.queries], queries.texts[: options.queries]
        lists = lists_in_order(context.inputs["validation_run"].folder / layout.RUN, queries.query_ids)
        # the top alone: a run of all may be too large to hold
        tops = (types.RankedList(ranked.doc_ids[: options.depth], ranked.scores[: options.depth]) for ranked in lists)
        run, judged = dict(zip(query_ids, tops, strict=False)), collection.judged(options.split)
        segments = getattr(self, "segments", None)
        return self.measure(network, ValidationData(collection.corpus, query_ids, texts, judged, run, segments))

    def measure(self, network: Any, data: Any) -> Validate:
        """What measures an encoder on dev queries, their labels and a run of them (`ValidationData`)."""
        from hardneg.training.validation import pool_validation

        return pool_validation(network, data, self.validation.depth)


class EncoderOptions(ValidationOptions, TrainConfig):
    """The encoder to begin with, how documents are cut for it, and the groups of every verb that trains an encoder."""

    artifact_type = "model"
    model: Annotated[Name, Reference(("model",))] = Field(default=layout.START, description="The model to begin with.")
    segments: OwnCut = Field(
        default=None,
        json_schema_extra=LATER,
        description="How documents are cut, each then scored by its best segment; none: their first tokens are read.",
    )

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        return recipe.model_of(self.model)

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A model that cannot learn or whose texts cannot be cut, a loss for scores of another similarity."""
        start = self.began_with(recipe)
        similarity, family = start.similarity, recipe.models.of(start).known_family
        if family is not None and not family.trainable:
            yield "model: the recipe's model has no weights here, so it cannot be trained; name another model"
        if self.segments is not None and family is not None and family.form != "vectors":
            form = FORM_WORDS[family.form]
            yield f"segments: the recipe's model makes {form}, for which documents are not cut; leave them out"
        if similarity not in (None, wanted := getattr(type(recipe.plugin("loss")), "similarity", similarity)):
            mismatch = f"{self.loss.name} is made for similarity {wanted}, and the model's is {similarity}"
            yield f"loss: {mismatch}; say model.similarity: {wanted}, or take another loss"

    def remarks(self, recipe: RecipeView) -> Iterator[str]:
        """A temperature that makes all documents pull alike over cosines."""
        loss, start = recipe.plugin("loss"), self.began_with(recipe)
        model, temperature = recipe.models.of(start), getattr(loss, "temperature", 0.0)
        if temperature < 1.0 or "teacher" in needs_of(loss):
            return
        similarity = start.similarity or (model.known.similarity if model.known else None)
        if similarity == "cosine" and (model.known_family is None or model.known_family.form == "vectors"):
            why = f"temperature {temperature:g} over cosines, so that all documents pull alike"
            yield f"loss: {self.loss.name}: {why}; {TEMPERATURE} is usual, or say model.similarity: dot"

    def estimate(self, sizes: Sizes, split: str = "train", models: int = 1) -> Row:
        """By the queries of a split; models: how many of its size are left in the end."""
        steps, adapter, shape = self.options.last_step(sizes.queries(split)), sizes.model.adapter, sizes.shape
        kept = steps // self.options.keep_every if self.options.keep_every else 0
        learning = shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)
        return Row(steps, "steps", (models + kept) * shape.weights + 3 * learning)

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.encoders.open.model_card import model_card

        model, cut = context.inputs["model"], self.segments
        base = {"Base model": model.name if model.model is None else model.model.name}
        more = {"Documents": f"by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
        network.save(context.folder / layout.MODEL_FOLDER, card=model_card(network, {**base, **card, **more}))
