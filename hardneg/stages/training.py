"""Base classes of training stages, with groups of options that each verb selects by inheritance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hardneg import fields
from hardneg.formats import qrels, runs
from hardneg.formats.collection import Queries
from hardneg.formats.negatives import read_negatives, with_positives
from hardneg.formats.segments import Segments
from hardneg.losses import TEMPERATURE
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import load_plugin, needs_of, plugin_names
from hardneg.runtime import barrier, world
from hardneg.stages import Facts, RecipeView, StageContext, StageSpec, StoredCollection, base, work
from hardneg.store import KEPT, SCRATCH, digest, replacing
from hardneg.training import options as training_options
from hardneg.training.batch_orders import TrainingQueries
from hardneg.training.examples import Guide, QueryOrder, Teacher, TrainingData, write_teacher
from hardneg.training.options import GUIDES, LearningOptions, TrainOptions, collect, usual_rate

Validate = Callable[[], Mapping[str, float]]
Told = Callable[[Any], tuple[Facts, Facts]]
"""A function that maps a `TrainingResult` to facts for the model card and further facts for the manifest."""
Opened = tuple[Any, Told]
"""A training method (`ExampleTraining`) with its network and data, paired with the function that returns its facts."""
OF_THE_RUN = "Training options, such as steps, negatives, optimizer and precision."


def examples_of(collection: StoredCollection, negatives: base.ArtifactInput | None) -> TrainingData:
    """Return training data for the queries of the stage `negatives`; None means split `train` without negatives."""
    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, work.own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: base.ArtifactInput | None) -> TrainingData:
    """Return queries with their positives and, if given, the mined `negatives` together with any positives they add."""
    lists = None if negatives is None else read_negatives(negatives.folder / layout.NEGATIVES)
    known: Mapping[str, Sequence[str]] = qrels.positives(collection.all_qrels())
    if pseudo := work.pseudo_positives(negatives):
        known = with_positives(known, pseudo)
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


class OptionGroup(StageSpec):
    """Base class of option groups, from which training verbs inherit.

    gives: the optional fields of `ScoreBatch` that the verb can provide. A group may define `mistakes`, in the same
    form as `problems`, and `withheld`, which yields the fields that its options rule out, each with advice.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:  # fields of other groups
        loss: types.PluginSetting
        options: LearningOptions
        segments: Segments | None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Yield the mistakes in the options of the verb and its groups, one line each."""
        return collect(self, "mistakes", recipe)


class TrainConfig(OptionGroup):
    """The loss and options of all training verbs; judged: how model cards describe the candidates of dev metrics."""

    needs_dataset = resumes = every_process = True
    artifact_folder = layout.MODEL_FOLDER
    judged: ClassVar[str] = "over a pool"
    loss: fields.LossSetting = Field(description="Training loss; `hardneg plugins list losses` shows all.")
    options: Annotated[LearningOptions, AfterValidator(fields.without_problems)] = Field(
        default_factory=LearningOptions, description=OF_THE_RUN
    )

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "options": self.options.identity()}

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        withheld: dict[str, str] = dict(reversed([*collect(self, "withheld")]))
        lacking = [part for part in needs_of(recipe.plugin("loss")) if part in withheld or part not in self.gives]
        if {*lacking} <= {*withheld} & {*self.gives}:
            yield from dict.fromkeys(withheld[part] for part in lacking)
        else:
            gives = {verb: getattr(load_plugin("stages", verb), "gives", ()) for verb in plugin_names("stages")}
            fitting = [verb for verb, parts in gives.items() if {*lacking} <= {*parts}]
            use = f"use it in stage {' or '.join(fitting)}, or " if fitting else ""
            lack = f"{self.loss.name} needs {', '.join(lacking)}, which this stage does not provide"
            yield f"loss: {lack}; {use}choose another loss"
        if self.options.negatives_drawn == "margin_bins" and getattr(self, "teacher", None) is None:
            yield "options.negatives_drawn: margin_bins needs a teacher's scores; set teacher, or remove it"

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"checkpoints/{recipe.name}": KEPT}

    @property
    def batch(self) -> str:
        """The batch size in words, for the model card."""
        return f"{self.options.batch_size * self.options.accumulate} queries"

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> Opened:
        """Return the training method and the function that returns its facts; ending: stack to close after training."""
        raise NotImplementedError(f"stage {self.stage} does not implement `opened`")

    def judge(self, context: StageContext[Any], collection: StoredCollection, network: Any) -> Validate | None:
        """Return a function that measures the network during training; None without validation."""
        return None

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        """Save the network with a model card that lists the facts of `card`."""
        raise NotImplementedError(f"stage {self.stage} does not implement `save`")

    def make(self, context: "StageContext[Any]") -> Facts:
        """Train the network and save it with its card and learning curve; only the first process returns facts."""
        from hardneg.training.loop import learn

        loss, options = context.plugins["loss"], self.options
        collection = work.open_collection(context.inputs["dataset"])
        with ExitStack() as ending:
            way, told = self.opened(context, collection, ending)
            judge = self.judge(context, collection, way.encoder)
            result = learn(way, loss, options, context.folder, progress=context.progress, validate=judge)
        if world().rank > 0:
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
    """Validation on the first `queries` of `split` (default: all), by reranking positives and a run's top `depth`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    split: fields.Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class ValidationOptions(OptionGroup):
    """The run and the queries for validation during training."""

    validation_run: Annotated[fields.Name | None, fields.MEASURED] = Field(
        default=None,
        description="Run whose top passages and the positives are reranked to measure on dev; default: no validation.",
    )
    validation: Validation = Field(
        default=Validation(),
        description="For validation: the split, the number of `queries`, and the `depth` of the run.",
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        split, own = getattr(recipe.stages.get(self.validation_run or ""), "split", None), self.validation.split
        if split not in (None, own):
            mismatch = f"{self.validation_run!r} is a run of split {split}, but validation.split is {own}"
            yield f"validation_run: {mismatch}; use a run of the same split"

    def judge(self, context: StageContext[Any], collection: StoredCollection, network: Any) -> Validate | None:
        from hardneg.training.validation import ValidationData

        if "validation_run" not in context.inputs:
            return None
        queries, options = collection.queries(self.validation.split), self.validation
        query_ids, texts = queries.query_ids[: options.queries], queries.texts[: options.queries]
        lists = runs.lists_in_order(context.inputs["validation_run"].folder / layout.RUN, queries.query_ids)
        # the whole run may not fit into memory
        tops = (types.RankedList(ranked.doc_ids[: options.depth], ranked.scores[: options.depth]) for ranked in lists)
        run, judged = dict(zip(query_ids, tops, strict=False)), collection.judged(options.split)
        segments = getattr(self, "segments", None)
        return self.measure(network, ValidationData(collection.corpus, query_ids, texts, judged, run, segments))

    def measure(self, network: Any, data: Any) -> Validate:
        """Return a function that computes the network's current dev metrics on `data`, a `ValidationData`."""
        from hardneg.training.validation import pool_validation

        return pool_validation(network, data, self.validation.depth)


class EncoderOptions(ValidationOptions, TrainConfig):
    """The initial encoder, the segments of documents, and the options shared by all verbs that train an encoder."""

    artifact_type = "model"
    model: Annotated[fields.Name, fields.Reference(("model",))] = Field(layout.START, description="The initial model.")
    segments: fields.OwnCut = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="Split documents into segments and use the best score; default: read only the first tokens.",
    )

    def completed(self, recipe: RecipeView, written: Mapping[str, Any], notes: list[str]) -> Self:
        """Return the stage with the usual learning rate for its kind of model, unless the recipe sets one."""
        model, options = self.began_with(recipe), self.options
        if "learning_rate" not in written.get("options", {}):
            if rate := usual_rate(recipe.models.of(model)):
                options = replace(options, learning_rate=rate)
            else:
                why = f"{options.learning_rate:g} is assumed because {model.name} is not downloaded"
                notes.append(f"options.learning_rate: {why}; download it first if it is a static table")
        notes += self._remarks(recipe)
        return self.model_copy(update={"options": options})

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        start, rate = self.began_with(recipe), self.options.learning_rate
        similarity, model = start.similarity, recipe.models.of(start)
        family = model.known_family
        if (usual := usual_rate(model) or rate) < training_options.TABLE <= rate:
            why = f"{rate:g} suits only static tables; other models collapse to one vector"
            yield f"options.learning_rate: {why}; set it to {usual:g}, which is usual for this model"
        if family is not None and not family.trainable:
            yield "model: the recipe's model has no local weights, so it cannot be trained; use another model"
        if self.segments is not None and family is not None and family.form != "vectors":
            form = base.FORM_WORDS[family.form]
            yield f"segments: cannot be combined with the recipe's model, which has {form}; remove it"
        if similarity not in (None, wanted := getattr(type(recipe.plugin("loss")), "similarity", similarity)):
            mismatch = f"{self.loss.name} needs similarity {wanted}, but the model's is {similarity}"
            yield f"loss: {mismatch}; set model.similarity: {wanted}, or choose another loss"

    def _remarks(self, recipe: RecipeView) -> Iterator[str]:
        loss, start = recipe.plugin("loss"), self.began_with(recipe)
        model, temperature = recipe.models.of(start), getattr(loss, "temperature", 0.0)
        if temperature < 1.0 or "teacher" in needs_of(loss):
            return
        similarity = start.similarity or (model.known.similarity if model.known else None)
        if similarity == "cosine" and (model.known_family is None or model.known_family.form == "vectors"):
            why = f"with cosines, temperature {temperature:g} weights all documents almost equally"
            yield f"loss: {self.loss.name}: {why}; {TEMPERATURE} is usual, or set model.similarity: dot"

    def estimate(self, sizes: base.Sizes, split: str = "train", models: int = 1) -> base.Row:
        """Return the estimate based on the queries of a split; models: the number of model copies saved at the end."""
        steps, adapter, shape = self.options.last_step(sizes.queries(split)), sizes.model.adapter, sizes.shape
        kept = steps // self.options.keep_every if self.options.keep_every else 0
        learning = shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)
        return base.Row(steps, "steps", (models + kept) * shape.weights + 3 * learning)

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.encoders.open.model_card import model_card

        model, cut = context.inputs["model"], self.segments
        base = {"Base model": model.name if model.model is None else model.model.name}
        more = {"Documents": f"scored by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
        network.save(context.folder / layout.MODEL_FOLDER, card=model_card(network, {**base, **card, **more}))


SHUFFLED = "shuffled"
_SOURCES = {"vectors": ("index", "an encode stage"), "run": ("run", "a run of the training queries")}
"""The artifact type of each input that a batch order may need, and its description in messages."""
_NO_SEGMENTS = {**base.NOT_ONE_VECTOR, fields.Trait.SEGMENTS: "use an index without `segments`"}
_QUERIES_OF = fields.Reference(("index", "run"), base.NOT_ONE_VECTOR, with_model=True)


class TeacherOptions(OptionGroup):
    """The option `teacher`, a run whose scores the loss distils."""

    teacher: Annotated[fields.Name | None, fields.Reference(("run",), refuses=fields.OF_QUERIES)] = Field(
        default=None,
        description="Run of the training queries, such as from a rerank stage, whose scores the loss distils.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        if self.teacher is None and getattr(self, "guide", None) is None:
            yield "teacher", f"teacher: missing; {self.loss.name} needs a run with scores, such as from a rerank stage"

    def with_teacher(self, context: StageContext[Any], data: TrainingData) -> tuple[TrainingData, dict[str, int]]:
        """Return the data with any `teacher`'s scores, and a fact: the number of queries without a scored positive.

        Raises DataError if the teacher's run has different queries, and TrainingError if it scores no positive.
        """
        source = context.inputs.get("teacher")
        if source is None:
            return data, {}
        folder = context.folder / SCRATCH / "teacher"
        if world().rank == 0:
            write_teacher(folder, data.corpus, runs.lists_in_order(source.folder / layout.RUN, data.query_ids))
        barrier()
        teacher = Teacher.open(folder, len(data.corpus))
        positives = [data.positives.get(query_id, ()) for query_id in data.query_ids]
        rows = np.repeat(np.arange(len(positives)), [len(doc_ids) for doc_ids in positives])
        documents = data.corpus.rows([doc_id for doc_ids in positives for doc_id in doc_ids])
        scores = teacher.scores(rows, documents[:, None])[:, 0]
        scored, known = len(np.unique(rows[~np.isnan(scores)])), len(np.unique(rows))
        if not scored:
            none = f"{source.name} has no scores of known positives of the training queries"
            raise errors.TrainingError(f"{context.name}.teacher: {none}; rerank their run with `positives: true`")
        if scored < known:
            context.progress.note(
                f"{context.name}: {source.name} has no score of a positive for {known - scored} of {known} queries"
            )
        return replace(data, teacher=teacher), {"queries without a positive that the teacher scored": known - scored}


class GuideOptions(OptionGroup):
    """The options `guide` (another encoder, which scores each batch for masks and losses) and `guided_mask`."""

    guide: Annotated[fields.Name | None, fields.Reference(("index",), _NO_SEGMENTS, with_model=True)] = Field(
        default=None,
        description="An encode stage whose model scores each batch; also the teacher of a loss that needs one, unless "
        "`teacher` is set.",
    )
    guided_mask: Annotated[training_options.GuidedMask, AfterValidator(fields.without_problems)] | None = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="Mask negatives that the guide scores above the positive's score minus `margin`; `kind` is "
        "`absolute`, or `relative` to the positive's score.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        parts = GUIDES if getattr(self, "teacher", None) is not None else ("teacher", *GUIDES)
        for part in parts if self.guide is None else ():
            yield part, f"guide: missing; {self.loss.name} needs its scores, so set it to an encode stage"

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        loss, taught = recipe.plugin("loss"), getattr(self, "teacher", None) is not None
        needed = {*needs_of(loss)} & {*GUIDES, *([] if taught else ["teacher"])}
        if self.guide is None and self.guided_mask is not None:
            yield "guide: missing; guided_mask needs its scores, so set it to an encode stage"
        if self.guide is not None and {"teacher", "guide"} <= needed:
            yield f"teacher: missing; {self.loss.name} needs scores of a run and of the guide, so use stage train"
        if self.guide is not None and self.guided_mask is None and loss is not None and not needed:
            yield f"guide: not used by loss {self.loss.name}; set guided_mask, use another loss, or remove it"

    def with_guide(self, context: StageContext[Any], data: TrainingData) -> TrainingData:
        """Return the data with the vectors of the guide, if any; the guide's model encodes the queries once.

        Raises UsageError if the guide's index returns no vectors, and ModelError if its model returns several per text.
        """
        source = context.inputs.get("guide")
        if source is None:
            return data
        searcher = work.open_searcher(source, work.open_collection(context.inputs["dataset"]), context.device, None)
        if not isinstance(searcher, StoredSearcher | DenseSearcher):
            raise errors.UsageError(f"{context.name}.guide: {source.name} stores no vectors; use an encode stage")
        model = context.inputs["guide.model"]
        queries = work.encoded_queries(context, model, data.texts, "guide-queries")
        return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))


class BatchOptions(OptionGroup):
    """The options for the order of training queries, which decides which queries share a batch."""

    batches: Annotated[
        fields.Setting | None,
        AfterValidator(lambda setting: None if setting == types.PluginSetting(SHUFFLED) else setting),
        fields.PluginKind("batches"),
    ] = Field(default=None, json_schema_extra=fields.LATER, description="Order of the queries; default: `shuffled`.")
    batches_from: Annotated[
        fields.Name | None, fields.Reference(("index", "run"), base.NOT_ONE_VECTOR, with_model=True)
    ] = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="Input of `batches`: an encode stage, whose model encodes the queries, or a run of the queries.",
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        if self.batches is not None and self.options.iterate_negatives:
            yield "batches: cannot be combined with options.iterate_negatives; remove one of them"
        plugin = recipe.plugin("batches")
        if self.batches is not None and plugin is None:  # reported already
            return
        needs, what = needs_of(plugin), SHUFFLED if self.batches is None else self.batches.name
        named = None if self.batches_from is None else recipe.stages.get(self.batches_from)
        if not needs and self.batches_from is not None:
            yield f"batches_from: not used by order {what}; remove it"
        for need in needs:
            part, words = _SOURCES[need]
            if self.batches_from is None:
                yield f"batches_from: missing; order {what} needs {need}, so set it to {words}"
            elif named is not None and part not in named.parts:
                yield f"batches_from: {self.batches_from!r} has no {need}; use {words}"

    def with_order(self, context: StageContext[Any], data: TrainingData) -> TrainingData:
        """Return the data with the stage's batch order, which the first process saves for the others and for resuming.

        Raises DataError if the run has different queries, and UsageError if the queries are too few for the order.
        """
        if self.batches is None:
            return data
        plugin, size = context.plugins["batches"], self.options.batch_size
        needs: dict[str, Any] = {}
        if "vectors" in plugin.needs:
            model = context.inputs["batches_from.model"]
            needs["vectors"] = work.encoded_queries(context, model, data.texts, "batches-queries")
        if "run" in plugin.needs:
            needs["run"] = runs.lists_in_order(context.inputs["batches_from"].folder / layout.RUN, data.query_ids)
        queries = replace(TrainingQueries(data.query_ids, data.positives), **needs)
        file = context.folder / SCRATCH / "batches.npy"
        if world().rank == 0 and not file.exists():
            with context.progress.task("batches", None, "queries"):
                groups = plugin.groups(queries, size, seed=self.options.seed)
                with replacing(file) as out:
                    np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
        barrier()
        return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


class DualOptions(GuideOptions, BatchOptions, EncoderOptions):
    """The options of verbs that train both encoders and score each query against all documents in the batch."""

    gives: ClassVar[tuple[str, ...]] = ("teacher", *training_options.WITH_EACH_OTHER, *GUIDES)
    options: Annotated[TrainOptions, AfterValidator(fields.without_problems)] = Field(
        default_factory=TrainOptions, description=OF_THE_RUN
    )
    dims: fields.Dimensions | None = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="Vector dimensions to train at (Matryoshka), optionally with weights; default: only the full one.",
    )
    precisions: Annotated[tuple[types.StoredPrecision, ...], AfterValidator(fields.each_once)] = Field(
        default=(), json_schema_extra=fields.LATER, description="Precisions of the document index to train for."
    )
    regularizer: fields.RegularizerSetting = Field(
        default=None, json_schema_extra=fields.LATER, description="A penalty on the encoded texts."
    )
    self_mask: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="Mask negatives that the model itself scores above the positive by more than this.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        reason = f"segments: cannot be combined with {self.loss.name}, which compares documents; remove one of them"
        yield from [] if self.segments is None else [("document_document", reason)]

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        dimension, family = (model := recipe.models.of(self.began_with(recipe))).dimension, model.known_family
        if family is not None and family.form != "vectors":
            reason = f"the recipe's model has {base.FORM_WORDS[family.form]}, which cannot be truncated; remove it"
            yield from (f"{name}: {reason}" for name in ("dims", "precisions") if getattr(self, name))
        elif self.dims is not None and dimension is not None and (most := max(self.dims)) > dimension:
            yield f"dims: must be at most {dimension}, as in the recipe's model, not {most}"
        wanted = getattr(type(recipe.plugin("regularizer")), "form", None)
        if self.regularizer is not None and family is not None and wanted not in (None, family.form):
            mismatch = f"{self.regularizer.name} penalizes {base.FORM_WORDS.get(str(wanted), wanted)}"
            yield f"regularizer: {mismatch}, but the recipe's model has {base.FORM_WORDS[family.form]}; remove it"
        elif self.regularizer is not None and self.segments is not None:
            yield "regularizer: cannot be combined with segments; remove one of them"

    def terms(self, context: StageContext[Any], encoder: Any) -> Any:
        """Return the terms of the objective (`LossTerms`); print a note if `dims` omits the full dimension."""
        from hardneg.training.methods.dual_encoder import LossTerms

        if self.dims and encoder.dimension not in self.dims:
            whole = f"does not include the model's full {encoder.dimension} dimensions, which are not trained"
            context.progress.note(f"{context.name}.dims: {whole}")
        penalty = context.plugins.get("regularizer")
        return LossTerms(self.dims or {}, penalty, self.guided_mask, self.self_mask, self.precisions)

    def terms_facts(self, context: StageContext[Any]) -> dict[str, object]:
        """Return the terms of the objective that are set, described for the model card."""
        dims = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in (self.dims or {}).items()]
        mask, guide = self.guided_mask, context.inputs.get("guide")
        facts = {
            "Trained at": dims and f"{', '.join(dims)} dimensions; vectors can be truncated to these",
            "Trained for indexes of": ", ".join(self.precisions),
            "Regularizer": context.plugins.get("regularizer"),
            "Guide": guide and guide.name,
            "Guided mask": mask and f"{mask.kind} margin {mask.margin:g}",
            "Self-mask": None if self.self_mask is None else f"margin {self.self_mask:g}",
        }
        return {name: value for name, value in facts.items() if value}
