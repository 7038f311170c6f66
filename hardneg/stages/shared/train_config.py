"""The one stage that trains, and its options in groups: a verb has those that it names among its bases.

A verb says by `opened` which method learns from what; `TrainConfig.make` does the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import (
    LATER,
    MEASURED,
    OF_QUERIES,
    Dimensions,
    LossSetting,
    Name,
    OwnCut,
    PluginKind,
    Reference,
    RegularizerSetting,
    Setting,
    Trait,
    each_once,
    without_problems,
)
from hardneg.formats.collection import StoredCollection
from hardneg.formats.runs import lists_in_order
from hardneg.formats.segments import Segments
from hardneg.losses import TEMPERATURE
from hardneg.protocols import Loss
from hardneg.records import HISTORY, MODEL_FOLDER, RUN, START, PluginSetting, RankedList, StoredPrecision, counted
from hardneg.registry import load_plugin, needs_of, plugin_names
from hardneg.runtime import world
from hardneg.stages.shared.context import ArtifactInput, Facts, StageContext
from hardneg.stages.shared.inputs import open_collection
from hardneg.stages.shared.stage_spec import FORM_WORDS, NOT_ONE_VECTOR, RecipeView, StageSpec
from hardneg.store import KEPT, SCRATCH, options_in_key
from hardneg.training.loss_terms import GUIDES, WITH_EACH_OTHER, GuidedMask
from hardneg.training.options import TABLE, LearningOptions, TrainOptions, gathered, usual_rate

if TYPE_CHECKING:
    from hardneg.training.loop import TrainingResult
    from hardneg.training.step import ExampleTraining
    from hardneg.training.validation import ValidationData

Validate = Callable[[], Mapping[str, float]]
Told = Callable[["TrainingResult"], tuple[Mapping[str, object], Mapping[str, object]]]
"""What a verb tells of a finished training on the model's card, and in the manifest."""
SHUFFLED = "shuffled"
_SOURCES = {"vectors": ("index", "an encode stage"), "run": ("run", "a run of the training queries")}
"""What an order of batches may need: what a stage makes that has it, and the same in words."""


class OptionGroup(StageSpec):
    """A group of options of the verbs that train.

    gives: the optional parts of a `ScoreBatch` that the verb's batches have, for losses that need them. A group's
    `mistakes` are lines as of `problems`, and its `withheld` those of `gives` that its options leave out, with advice.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:  # what a group reads of others, where the verb has them
        loss: PluginSetting
        options: LearningOptions
        segments: Segments | None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """The mistakes of the verb and of its groups."""
        return gathered(self, "mistakes", recipe)


def of_the_run(options: type[LearningOptions]) -> Any:
    """The field `options` of a verb."""
    return Field(default_factory=options, description="Of the training run: steps, negatives, optimizer, precision.")


class TrainConfig(OptionGroup):
    """What is minimised, and how; the stage of every verb that trains.

    batch, judged: a batch, and what the dev metric is taken over, in the words of the model's card.
    """

    needs_dataset = resumes = every_process = True
    artifact_folder = MODEL_FOLDER
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
        return f"{self.options.batch_size * self.options.accumulate} queries"

    def opened(
        self, context: StageContext[Any], collection: StoredCollection
    ) -> "AbstractContextManager[tuple[ExampleTraining, Told]]":
        """The method with its network and data, and what is told in the end."""
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

        loss, options = context.plugin("loss", Loss), self.options
        collection = open_collection(context.inputs["dataset"])
        with self.opened(context, collection) as (way, told):
            judge = self.judge(context, collection, way.encoder)
            result = learn(way, loss, options, context.folder, progress=context.progress, validate=judge)
        if not world().first:
            return {}
        facts, more = told(result)
        rate = f"{options.optimizer}, peak learning rate {options.learning_rate:g}, seed {options.seed}"
        card = {**facts, "Loss": loss, "Training": f"{counted(result.steps, 'step')} of {self.batch}, {rate}"}
        if result.best is not None:
            card[f"Dev {options.metric}, {self.judged}"] = f"{result.best:.4f} at step {result.best_step}"
        self.save(context, way.encoder, card)
        context.keep_only(*self.parts.values(), KEPT, HISTORY, SCRATCH)
        return {**result.facts(options.metric), **more}


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class ValidationOptions(OptionGroup):
    """What the model is judged by while it trains."""

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
        """Measures an encoder on the dev queries; None where the recipe names no run to take the pool from."""
        from hardneg.training.validation import pool_validation

        data = self.dev_data(context, collection)
        return None if data is None else pool_validation(network, data, self.validation.depth)

    def dev_data(self, context: StageContext[Any], collection: StoredCollection) -> "ValidationData | None":
        """The dev queries, their labels and a run of them; None where the recipe names no run."""
        from hardneg.training.validation import ValidationData

        if "validation_run" not in context.inputs:
            return None
        queries, options = collection.queries(self.validation.split), self.validation
        query_ids, texts = queries.query_ids[: options.queries], queries.texts[: options.queries]
        lists = lists_in_order(context.inputs["validation_run"].folder / RUN, queries.query_ids)
        # the top alone: a run of all may be too large to hold
        tops = (RankedList(ranked.doc_ids[: options.depth], ranked.scores[: options.depth]) for ranked in lists)
        run, judged = dict(zip(query_ids, tops, strict=False)), collection.judged(options.split)
        return ValidationData(collection.corpus, query_ids, texts, judged, run, getattr(self, "segments", None))


_GUIDE = Reference(("index",), {**NOT_ONE_VECTOR, Trait.SEGMENTS: "name one without `segments`"}, with_model=True)


class GuideOptions(OptionGroup):
    """A guide: another encoder, whose scores of each batch masks and losses go by."""

    guide: Annotated[Name | None, _GUIDE] = Field(
        default=None,
        description="An encode stage whose vectors, and its model's of queries, score each batch; also the teacher "
        "of a loss that needs one, where no run is named.",
    )
    guided_mask: Annotated[GuidedMask, AfterValidator(without_problems)] | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="No negative is what the guide scores above the positive, less a `margin`, as `kind` says "
        "`absolute` or `relative` to the positive's score.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        """Without a guide none of its parts, nor a teacher's where no run has them."""
        parts = GUIDES if getattr(self, "teacher", None) is not None else ("teacher", *GUIDES)
        for part in parts if self.guide is None else ():
            yield part, f"guide: missing; {self.loss.name} needs its scores: name an encode stage"

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A guide that is not there, or that nothing uses."""
        loss, taught = recipe.plugin("loss"), getattr(self, "teacher", None) is not None
        needed = {*needs_of(loss)} & {*GUIDES, *([] if taught else ["teacher"])}
        if self.guide is None and self.guided_mask is not None:
            yield "guide: missing; guided_mask needs its scores: name an encode stage"
        if self.guide is not None and {"teacher", "guide"} <= needed:
            yield f"teacher: missing; {self.loss.name} learns a run's scores beside the guide's: take stage train"
        if self.guide is not None and self.guided_mask is None and loss is not None and not needed:
            yield f"guide: nothing uses it; give guided_mask, or a loss that learns from it instead of {self.loss.name}"


class TeacherOptions(OptionGroup):
    """A teacher, where the loss learns from one."""

    teacher: Annotated[Name | None, Reference(("run",), refuses=OF_QUERIES)] = Field(
        default=None,
        description="A run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn; it "
        "is of the queries that the negatives are of.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        """A teacher's scores, where neither a run nor a guide has them."""
        if self.teacher is None and getattr(self, "guide", None) is None:
            reason = f"missing; {self.loss.name} learns a run's scores, such as those of a rerank stage"
            yield "teacher", f"teacher: {reason}"


class BatchOptions(OptionGroup):
    """Which queries share a batch."""

    batches: Annotated[
        Setting | None,
        AfterValidator(lambda setting: None if setting == PluginSetting(SHUFFLED) else setting),
        PluginKind("batches"),
    ] = Field(default=None, json_schema_extra=LATER, description="The order of the queries; by default `shuffled`.")
    batches_from: Annotated[Name | None, Reference(("index", "run"), NOT_ONE_VECTOR, with_model=True)] = Field(
        default=None,
        json_schema_extra=LATER,
        description="What that is made by: an encode stage, whose model encodes the queries, or a run of them.",
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """An order that lacks what it is made by, or has what it does not take."""
        if self.batches is not None and self.options.iterate_negatives:
            yield "batches: options.iterate_negatives has a query's examples in a row; leave one of the two out"
        plugin = recipe.plugin("batches")
        if self.batches is not None and plugin is None:  # a line of its own says why
            return
        needs, what = needs_of(plugin), SHUFFLED if self.batches is None else self.batches.name
        named = None if self.batches_from is None else recipe.stages.get(self.batches_from)
        if not needs and self.batches_from is not None:
            yield f"batches_from: batches {what} are made by the queries alone; leave it out"
        for need in needs:
            part, words = _SOURCES[need]
            if self.batches_from is None:
                yield f"batches_from: missing; {what} is made by {need}: name {words}"
            elif named is not None and part not in named.parts:
                yield f"batches_from: {self.batches_from!r} has no {need}; name {words}"


class EncoderOptions(ValidationOptions, TrainConfig):
    """The encoder to begin with, how documents are cut for it, and the groups of every verb that trains an encoder."""

    artifact_type = "model"
    model: Annotated[Name, Reference(("model",))] = Field(default=START, description="The model to begin with.")
    segments: OwnCut = Field(
        default=None,
        json_schema_extra=LATER,
        description="How documents are cut, each then scored by its best segment; none: their first tokens are read.",
    )

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        return recipe.model_of(self.model)

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A model that cannot learn or whose texts cannot be cut, a loss for other scores, a static table's rate."""
        start, rate = self.began_with(recipe), self.options.learning_rate
        model = recipe.models.of(start)
        similarity, family = start.similarity, model.known_family
        if (usual := usual_rate(model) or rate) < TABLE <= rate:
            why = f"{rate:g} is a rate for a static table, under which any other model gives all texts one vector"
            yield f"options.learning_rate: {why}; set it to {usual:g}, which is usual for this one"
        if family is not None and not family.trainable:
            yield "model: the recipe's model has no weights here, so it cannot be trained; name another model"
        if self.segments is not None and family is not None and family.form != "vectors":
            form = FORM_WORDS[family.form]
            yield f"segments: the recipe's model makes {form}, for which documents are not cut; leave them out"
        if similarity not in (None, wanted := getattr(type(recipe.plugin("loss")), "similarity", similarity)):
            mismatch = f"{self.loss.name} is made for similarity {wanted}, and the model's is {similarity}"
            yield f"loss: {mismatch}; say model.similarity: {wanted}, or take another loss"

    def remarks(self, recipe: RecipeView) -> Iterator[str]:
        """Also a temperature that makes all documents pull alike over cosines."""
        yield from super().remarks(recipe)
        loss, start = recipe.plugin("loss"), self.began_with(recipe)
        model, temperature = recipe.models.of(start), getattr(loss, "temperature", 0.0)
        if temperature < 1.0 or "teacher" in needs_of(loss):
            return
        similarity = start.similarity or (model.known.similarity if model.known else None)
        if similarity == "cosine" and (model.known_family is None or model.known_family.form == "vectors"):
            why = f"temperature {temperature:g} over cosines, so that all documents pull alike"
            yield f"loss: {self.loss.name}: {why}; {TEMPERATURE} is usual, or say model.similarity: dot"

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.encoders.open.model_card import model_card

        model, cut = context.inputs["model"], self.segments
        base = {"Base model": model.name if model.model is None else model.model.name}
        more = {"Documents": f"by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
        network.save(context.folder / MODEL_FOLDER, card=model_card(network, {**base, **card, **more}))


class DualOptions(GuideOptions, BatchOptions, EncoderOptions):
    """The groups of every verb that trains both sides, each query against the documents of its batch."""

    gives: ClassVar[tuple[str, ...]] = ("teacher", *WITH_EACH_OTHER, *GUIDES)
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = of_the_run(TrainOptions)
    dims: Dimensions | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="Numbers of dimensions that the loss is taken at, with or without a weight each; none: all alone.",
    )
    precisions: Annotated[tuple[StoredPrecision, ...], AfterValidator(each_once)] = Field(
        default=(), json_schema_extra=LATER, description="Precisions of an index's documents that the loss is taken at."
    )
    regularizer: RegularizerSetting = Field(
        default=None, json_schema_extra=LATER, description="A penalty on what texts are encoded into."
    )
    self_mask: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="No negative is what the model itself scores above its positive by more than this.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        """Of documents in segments the scores with each other."""
        reason = f"segments: have no scores with each other, which {self.loss.name} needs; leave them out"
        yield from [] if self.segments is None else [("document_document", reason)]

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """Dimensions that the model does not have, precisions and a penalty that do not fit what it makes."""
        dimension, family = (model := recipe.models.of(self.began_with(recipe))).dimension, model.known_family
        if family is not None and family.form != "vectors":
            reason = f"the recipe's model makes {FORM_WORDS[family.form]}, which cannot be cut; leave them out"
            yield from (f"{name}: {reason}" for name in ("dims", "precisions") if getattr(self, name))
        elif self.dims is not None and dimension is not None and (most := max(self.dims)) > dimension:
            yield f"dims: {most} is more than the {dimension} dimensions of the recipe's model; give fewer"
        wanted = getattr(type(recipe.plugin("regularizer")), "form", None)
        if self.regularizer is not None and family is not None and wanted not in (None, family.form):
            mismatch = f"{self.regularizer.name} is a penalty on {FORM_WORDS.get(str(wanted), wanted)}"
            yield f"regularizer: {mismatch}, and the recipe's model makes {FORM_WORDS[family.form]}; leave it out"
        elif self.regularizer is not None and self.segments is not None:
            yield "regularizer: documents in segments have no penalty; leave one of the two out"
