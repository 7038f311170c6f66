"""The data of stages that train: examples, and the options of their teacher, guide and order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from hardneg import fields
from hardneg.fields import LATER, Name, PluginKind, Reference, Trait, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import read_negatives, with_positives
from hardneg.formats.qrels import positives
from hardneg.formats.queries import Queries
from hardneg.formats.runs import lists_in_order
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import needs_of
from hardneg.runtime.distributed import barrier, world
from hardneg.stages.base import FORM_WORDS, NOT_ONE_VECTOR, ArtifactInput, RecipeView, StageContext
from hardneg.stages.inputs import encoded_queries, open_collection, open_searcher, own_queries
from hardneg.stages.training import EncoderOptions, OptionGroup, of_the_run
from hardneg.store.artifacts import SCRATCH
from hardneg.store.atomic_write import replacing
from hardneg.store.digest import digest
from hardneg.training.batch_orders import TrainingQueries
from hardneg.training.examples import QueryOrder, TrainingData
from hardneg.training.masks import GUIDES, WITH_EACH_OTHER, GuidedMask
from hardneg.training.options import TrainOptions
from hardneg.training.teacher import Guide, Teacher, write_teacher

_TEACHER_BLOCK = 4096
SHUFFLED = "shuffled"
_SOURCES = {"vectors": ("index", "an encode stage"), "run": ("run", "a run of the training queries")}
"""What an order of batches may need: what a stage makes that has it, and the same in words."""
_GUIDE = Reference(("index",), {**NOT_ONE_VECTOR, Trait.SEGMENTS: "name one without `segments`"}, with_model=True)


def examples_of(collection: StoredCollection, negatives: ArtifactInput | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""
    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: ArtifactInput | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    lists = None if negatives is None else read_negatives(negatives.folder / layout.NEGATIVES)
    known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
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
        """A teacher's scores, where neither a run nor a guide has them."""
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
            write_teacher(folder, data.corpus, lists_in_order(source.folder / layout.RUN, data.query_ids))
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

    def guided(self, context: StageContext[Any], data: TrainingData) -> TrainingData:
        """The examples with the vectors of the guide, if one is named; its model encodes the queries once.

        Raises:
            UsageError: the guide's index gives back no vectors.
            ModelError: its model makes more than one vector of a text.
        """
        source = context.inputs.get("guide")
        if source is None:
            return data
        searcher = open_searcher(source, open_collection(context.inputs["dataset"]), context.device, None)
        if not isinstance(searcher, StoredSearcher | DenseSearcher):
            problem = f"guide {source.name} holds nothing of documents"
            raise errors.UsageError(f"{context.name}: {problem}: name an encode stage")
        model = context.inputs["guide.model"]
        queries = encoded_queries(context, model, data.texts, "guide-queries")
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
            needs["vectors"] = encoded_queries(context, model, data.texts, "batches-queries")
        if "run" in plugin.needs:
            needs["run"] = lists_in_order(context.inputs["batches_from"].folder / layout.RUN, data.query_ids)
        queries = replace(TrainingQueries(data.query_ids, data.positives), **needs)
        file = context.folder / SCRATCH / "batches.npy"
        if world().first and not file.exists():
            with context.progress.task("batches", None, "queries"):
                groups = plugin.groups(queries, size, seed=self.options.seed)
                with replacing(file) as out:
                    np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
        barrier()
        return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


class DualOptions(GuideOptions, BatchOptions, EncoderOptions):
    """The groups of every verb that trains both sides, each query against the documents of its batch."""

    gives: ClassVar[tuple[str, ...]] = ("teacher", *WITH_EACH_OTHER, *GUIDES)
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

    def terms(self, context: StageContext[Any], encoder: Any) -> Any:
        """What the stage minimises (`LossTerms`); tells where the encoder's whole vectors are not among it."""
        from hardneg.training.loss_terms import LossTerms

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
