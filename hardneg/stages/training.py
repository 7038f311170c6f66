"""The one stage that trains, and its options in groups: a verb has those that it names among its bases."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hardneg import fields
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LATER, MEASURED, LossSetting, Name, OwnCut, PluginKind, Reference, Trait, without_problems
from hardneg.formats import qrels, runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import read_negatives, with_positives
from hardneg.formats.queries import Queries
from hardneg.formats.segments import Segments
from hardneg.losses import TEMPERATURE
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import load_plugin, needs_of, plugin_names
from hardneg.runtime import barrier, world
from hardneg.stages import base, inputs
from hardneg.stages.base import ArtifactInput, Facts, RecipeView, StageContext, StageSpec
from hardneg.store import KEPT, SCRATCH, atomic_write, digest, identity
from hardneg.training import options as training_options
from hardneg.training.batch_orders import TrainingQueries
from hardneg.training.examples import Guide, QueryOrder, Teacher, TrainingData, write_teacher
from hardneg.training.options import GUIDES, LearningOptions, TrainOptions, collect, usual_rate

Validate = Callable[[], Mapping[str, float]]
Told = Callable[[Any], tuple[Facts, Facts]]
"""What a verb tells of a finished training (`TrainingResult`) on the model's card, and in the manifest."""
Opened = tuple[Any, Told]
"""A method (`ExampleTraining`) with its network and data, and what is told in the end."""


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
        return collect(self, "mistakes", recipe)


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
        withheld: dict[str, str] = dict(reversed([*collect(self, "withheld")]))
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
        return {"loss": source.plugins["loss"], **identity.options_in_key(self.options), **figures}

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"checkpoints/{recipe.name}": KEPT}

    @property
    def batch(self) -> str:
        """A batch in the words of the model's card."""
        return f"{self.options.batch_size * self.options.accumulate} queries"

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> Opened:
        """The method and its data; `ending` is left when it has learnt."""
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
        collection = inputs.open_collection(context.inputs["dataset"])
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
        lists = runs.lists_in_order(context.inputs["validation_run"].folder / layout.RUN, queries.query_ids)
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
        start, rate = self.began_with(recipe), self.options.learning_rate
        similarity, model = start.similarity, recipe.models.of(start)
        family = model.known_family
        if (usual := usual_rate(model) or rate) < training_options.TABLE <= rate:
            why = f"{rate:g} is a rate for a static table, under which any other model gives all texts one vector"
            yield f"options.learning_rate: {why}; set it to {usual:g}, which is usual for this one"
        if family is not None and not family.trainable:
            yield "model: the recipe's model has no weights here, so it cannot be trained; name another model"
        if self.segments is not None and family is not None and family.form != "vectors":
            form = base.FORM_WORDS[family.form]
            yield f"segments: the recipe's model makes {form}, for which documents are not cut; leave them out"
        if similarity not in (None, wanted := getattr(type(recipe.plugin("loss")), "similarity", similarity)):
            mismatch = f"{self.loss.name} is made for similarity {wanted}, and the model's is {similarity}"
            yield f"loss: {mismatch}; say model.similarity: {wanted}, or take another loss"

    def remarks(self, recipe: RecipeView) -> Iterator[str]:
        loss, start = recipe.plugin("loss"), self.began_with(recipe)
        model, temperature = recipe.models.of(start), getattr(loss, "temperature", 0.0)
        if temperature < 1.0 or "teacher" in needs_of(loss):
            return
        similarity = start.similarity or (model.known.similarity if model.known else None)
        if similarity == "cosine" and (model.known_family is None or model.known_family.form == "vectors"):
            why = f"temperature {temperature:g} over cosines, so that all documents pull alike"
            yield f"loss: {self.loss.name}: {why}; {TEMPERATURE} is usual, or say model.similarity: dot"

    def estimate(self, sizes: base.Sizes, split: str = "train", models: int = 1) -> base.Row:
        """By the queries of a split; models: how many of its size are left in the end."""
        steps, adapter, shape = self.options.last_step(sizes.queries(split)), sizes.model.adapter, sizes.shape
        kept = steps // self.options.keep_every if self.options.keep_every else 0
        learning = shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)
        return base.Row(steps, "steps", (models + kept) * shape.weights + 3 * learning)

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.encoders.open.model_card import model_card

        model, cut = context.inputs["model"], self.segments
        base = {"Base model": model.name if model.model is None else model.model.name}
        more = {"Documents": f"by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
        network.save(context.folder / layout.MODEL_FOLDER, card=model_card(network, {**base, **card, **more}))


_TEACHER_BLOCK = 4096
SHUFFLED = "shuffled"
_SOURCES = {"vectors": ("index", "an encode stage"), "run": ("run", "a run of the training queries")}
"""What an order of batches may need: what a stage makes that has it, and the same in words."""
_GUIDE = Reference(("index",), {**base.NOT_ONE_VECTOR, Trait.SEGMENTS: "name one without `segments`"}, with_model=True)


def examples_of(collection: StoredCollection, negatives: ArtifactInput | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""
    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, inputs.own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: ArtifactInput | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    lists = None if negatives is None else read_negatives(negatives.folder / layout.NEGATIVES)
    known: Mapping[str, Sequence[str]] = qrels.positives(collection.all_qrels())
    if pseudo := pseudo_positives(negatives):
        known = with_positives(known, pseudo)
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


def pseudo_positives(negatives: ArtifactInput | None) -> Path | None:
    """The file of mined negatives, where it tells positives beside the collection's."""
    if negatives is None or not negatives.traits & {Trait.PSEUDO_POSITIVES, Trait.MORE_POSITIVES}:
        return None
    return negatives.folder / layout.NEGATIVES


def data_facts(context: StageContext[Any], corpus: Corpus, queries: int) -> dict[str, object]:
    """What a model card says of what was trained on."""
    written = ", written from them" if Trait.WRITTEN_QUERIES in context.inputs["dataset"].traits else ""
    teacher = {"Teacher": f"the scores of {context.inputs['teacher'].name}"} if "teacher" in context.inputs else {}
    counts = f"{wording.counted(len(corpus), 'passage')}, {wording.counted(queries, 'training query')}"
    return {"Dataset": f"{counts}{written}", **teacher}


class TeacherOptions(OptionGroup):
    """A teacher, where the loss learns from one."""

    teacher: Annotated[Name | None, Reference(("run",), refuses=fields.OF_QUERIES)] = Field(
        default=None,
        description="A run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn; it "
        "is of the queries that the negatives are of.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        if self.teacher is None and getattr(self, "guide", None) is None:
            reason = f"missing; {self.loss.name} learns a run's scores, such as those of a rerank stage"
            yield "teacher", f"teacher: {reason}"

    def taught(self, context: StageContext[Any], data: TrainingData) -> tuple[TrainingData, dict[str, int]]:
        """The examples with the scores of the `teacher`, if one is named, and how many lack a scored positive.

        Raises:
            DataError: the run is of other queries.
            TrainingError: it scores no positive of any of them.
        """
        source = context.inputs.get("teacher")
        if source is None:
            return data, {}
        folder = context.folder / SCRATCH / "teacher"
        if world().first:
            write_teacher(folder, data.corpus, runs.lists_in_order(source.folder / layout.RUN, data.query_ids))
        barrier()
        teacher, scored, known = Teacher.open(folder, len(data.corpus)), 0, 0
        queries = iter(enumerate(data.query_ids))
        while block := list(islice(queries, _TEACHER_BLOCK)):
            pairs = [(row, doc_id) for row, query_id in block for doc_id in data.positives.get(query_id, ())]
            rows = np.array([row for row, _ in pairs], np.int64)
            scores = teacher.scores(rows, data.corpus.rows([doc_id for _, doc_id in pairs])[:, None])[:, 0]
            scored, known = scored + len(np.unique(rows[~np.isnan(scores)])), known + len(np.unique(rows))
        if not scored:
            none = f"{source.name} scores no known positive of the training queries"
            raise errors.TrainingError(f"{context.name}.teacher: {none}: rerank their run with `positives: true`")
        if scored < known:
            few = f"{known - scored} of {known} queries have no positive that {source.name} scores"
            context.progress.note(f"{context.name}: {few}")
        return replace(data, teacher=teacher), {"queries without a positive that the teacher scored": known - scored}


class GuideOptions(OptionGroup):
    """A guide: another encoder, whose scores of each batch masks and losses go by."""

    guide: Annotated[Name | None, _GUIDE] = Field(
        default=None,
        description="An encode stage whose vectors, and its model's of queries, score each batch; also the teacher "
        "of a loss that needs one, where no run is named.",
    )
    guided_mask: Annotated[training_options.GuidedMask, AfterValidator(without_problems)] | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="No negative is what the guide scores above the positive, less a `margin`, as `kind` says "
        "`absolute` or `relative` to the positive's score.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        parts = GUIDES if getattr(self, "teacher", None) is not None else ("teacher", *GUIDES)
        for part in parts if self.guide is None else ():
            yield part, f"guide: missing; {self.loss.name} needs its scores: name an encode stage"

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        loss, taught = recipe.plugin("loss"), getattr(self, "teacher", None) is not None
        needed = {*needs_of(loss)} & {*GUIDES, *([] if taught else ["teacher"])}
        if self.guide is None and self.guided_mask is not None:
            yield "guide: missing; guided_mask needs its scores: name an encode stage"
        if self.guide is not None and {"teacher", "guide"} <= needed:
            yield f"teacher: missing; {self.loss.name} learns a run's scores beside the guide's: take stage train"
        if self.guide is not None and self.guided_mask is None and loss is not None and not needed:
            yield f"guide: nothing uses it; give guided_mask, or a loss that learns from it instead of {self.loss.name}"

    def guided(self, context: StageContext[Any], data: TrainingData) -> TrainingData:
        """The examples with the vectors of the guide, if one is named; its model encodes the queries once.

        Raises:
            UsageError: the guide's index gives back no vectors.
            ModelError: its model makes more than one vector of a text.
        """
        source = context.inputs.get("guide")
        if source is None:
            return data
        searcher = inputs.open_searcher(source, inputs.open_collection(context.inputs["dataset"]), context.device, None)
        if not isinstance(searcher, StoredSearcher | DenseSearcher):
            problem = f"guide {source.name} holds nothing of documents"
            raise errors.UsageError(f"{context.name}: {problem}: name an encode stage")
        model = context.inputs["guide.model"]
        queries = inputs.encoded_queries(context, model, data.texts, "guide-queries")
        return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))

    def guide_facts(self, context: StageContext[Any]) -> dict[str, object]:
        mask, source = self.guided_mask, context.inputs.get("guide")
        facts: dict[str, object] = {} if source is None else {"Guide": source.name}
        return facts if mask is None else {**facts, "Guided mask": f"{mask.kind} margin {mask.margin:g}"}


class BatchOptions(OptionGroup):
    """The order of queries in batches."""

    batches: Annotated[
        fields.Setting | None,
        AfterValidator(lambda setting: None if setting == types.PluginSetting(SHUFFLED) else setting),
        PluginKind("batches"),
    ] = Field(default=None, json_schema_extra=LATER, description="The order of the queries; by default `shuffled`.")
    batches_from: Annotated[Name | None, Reference(("index", "run"), base.NOT_ONE_VECTOR, with_model=True)] = Field(
        default=None,
        json_schema_extra=LATER,
        description="What that is made by: an encode stage, whose model encodes the queries, or a run of them.",
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
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

    def ordered(self, context: StageContext[Any], data: TrainingData) -> TrainingData:
        """The examples in the order that the stage says.

        What the order is made of is made once, by the first process, and kept among the stage's checkpoints, so that
        all processes and a training that is gone on with have the same.

        Raises:
            DataError: the run is of other queries, or a query has no source.
            UsageError: the order cannot be made of these queries.
        """
        if self.batches is None:
            return data
        plugin, size = context.plugins["batches"], self.options.batch_size
        needs: dict[str, Any] = {}
        if "vectors" in plugin.needs:
            model = context.inputs["batches_from.model"]
            needs["vectors"] = inputs.encoded_queries(context, model, data.texts, "batches-queries")
        if "run" in plugin.needs:
            needs["run"] = runs.lists_in_order(context.inputs["batches_from"].folder / layout.RUN, data.query_ids)
        queries = replace(TrainingQueries(data.query_ids, data.positives), **needs)
        file = context.folder / SCRATCH / "batches.npy"
        if world().first and not file.exists():
            with context.progress.task("batches", None, "queries"):
                groups = plugin.groups(queries, size, seed=self.options.seed)
                with atomic_write.replacing(file) as out:
                    np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
        barrier()
        return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


class DualOptions(GuideOptions, BatchOptions, EncoderOptions):
    """The groups of every verb that trains both sides, each query against the documents of its batch."""

    gives: ClassVar[tuple[str, ...]] = ("teacher", *training_options.WITH_EACH_OTHER, *GUIDES)
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = of_the_run(TrainOptions)
    dims: fields.Dimensions | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="Numbers of dimensions that the loss is taken at, with or without a weight each; none: all alone.",
    )
    precisions: Annotated[tuple[types.StoredPrecision, ...], AfterValidator(fields.each_once)] = Field(
        default=(), json_schema_extra=LATER, description="Precisions of an index's documents that the loss is taken at."
    )
    regularizer: fields.RegularizerSetting = Field(
        default=None, json_schema_extra=LATER, description="A penalty on what texts are encoded into."
    )
    self_mask: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None,
        json_schema_extra=LATER,
        description="No negative is what the model itself scores above its positive by more than this.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        reason = f"segments: have no scores with each other, which {self.loss.name} needs; leave them out"
        yield from [] if self.segments is None else [("document_document", reason)]

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        dimension, family = (model := recipe.models.of(self.began_with(recipe))).dimension, model.known_family
        if family is not None and family.form != "vectors":
            reason = f"the recipe's model makes {base.FORM_WORDS[family.form]}, which cannot be cut; leave them out"
            yield from (f"{name}: {reason}" for name in ("dims", "precisions") if getattr(self, name))
        elif self.dims is not None and dimension is not None and (most := max(self.dims)) > dimension:
            yield f"dims: {most} is more than the {dimension} dimensions of the recipe's model; give fewer"
        wanted = getattr(type(recipe.plugin("regularizer")), "form", None)
        if self.regularizer is not None and family is not None and wanted not in (None, family.form):
            mismatch = f"{self.regularizer.name} is a penalty on {base.FORM_WORDS.get(str(wanted), wanted)}"
            yield f"regularizer: {mismatch}, and the recipe's model makes {base.FORM_WORDS[family.form]}; leave it out"
        elif self.regularizer is not None and self.segments is not None:
            yield "regularizer: documents in segments have no penalty; leave one of the two out"

    def terms(self, context: StageContext[Any], encoder: Any) -> Any:
        """What the stage minimises (`LossTerms`); tells where the encoder's whole vectors are not among it."""
        from hardneg.training.methods.dual_encoder import LossTerms

        if self.dims and encoder.dimension not in self.dims:
            whole = f"the model's own {encoder.dimension} are not among them, so its whole vectors are not trained"
            context.progress.note(f"{context.name}: dims: {whole}")
        penalty = context.plugins.get("regularizer")
        return LossTerms(self.dims or {}, penalty, self.guided_mask, self.self_mask, self.precisions)

    def terms_facts(self, context: StageContext[Any]) -> dict[str, object]:
        """What a model card says of that."""
        dims = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in (self.dims or {}).items()]
        facts = {
            "Trained at": dims and f"{', '.join(dims)} dimensions: the first of a vector can be used alone",
            "Trained for indexes of": ", ".join(self.precisions),
            "Regularizer": context.plugins.get("regularizer"),
            **self.guide_facts(context),
            "Self-mask": None if self.self_mask is None else f"margin {self.self_mask:g}",
        }
        return {name: value for name, value in facts.items() if value}
