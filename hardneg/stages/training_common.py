"""What the stages that train share: their options, examples and teacher, the dev queries, the saved model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, with_config

from hardneg.artifacts import KEPT, SCRATCH
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.negatives import read_negatives, with_positives
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.runs import Run, lists_in_order
from hardneg.encoders.open import resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LATER, MEASURED, START, LossSetting, Name, OwnCut, Reference, Trait, without_problems
from hardneg.layout import MODEL_FOLDER, NEGATIVES, RUN
from hardneg.protocols import Loss
from hardneg.registry import load_plugin, needs_of, plugin_names
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.inputs import own_queries
from hardneg.stages.spec import PROCESS_BYTES, RecipeView, Row, Sizes, StageSpec
from hardneg.store.identity import options_in_key
from hardneg.training.examples import TrainingData
from hardneg.training.history import HISTORY
from hardneg.training.options import TrainOptions
from hardneg.types import RankedList
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.loop import TrainingResult
    from hardneg.training.method import TrainingMethod
    from hardneg.training.validation import ValidationData

with_config(ConfigDict(extra="forbid"))(TrainOptions)

_SCORE_BYTES = 24
FORM_WORDS = {"vectors": "one vector a text", "weights": "weights of terms", "token-vectors": "a vector a token"}
"""What encoders make, in words."""
ValidationRun = Annotated[Name | None, MEASURED]
"""Names the run whose top, with the positives, is the pool to judge by."""


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)

    def problems(self, run: str | None, recipe: RecipeView) -> Iterator[str]:
        """A `validation_run` of other queries than those of the split."""
        found = getattr(recipe.stages.get(run or ""), "split", None)
        if found not in (None, self.split):
            told = f"{run!r} is of split {found}, and validation.split is {self.split}"
            yield f"validation_run: {told}; name a run of the same split"


class TrainingSpec(StageSpec):
    """What all stages that train by a loss have in common.

    gives: the optional parts of a `ScoreBatch` that the stage's batches have, for losses that need them.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    needs_dataset = True
    resumes = True
    every_process = True
    loss: LossSetting = Field(description="A loss; `hardneg plugins list` shows them.")
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = Field(default_factory=TrainOptions)
    validation_run: ValidationRun = None
    validation: Validation = Validation()

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """A loss that needs what the batches lack; a run of other queries to judge by."""
        if lacking := [part for part in needs_of(recipe.plugin("loss")) if part not in self.given]:
            yield self.lacks(lacking)
        if self.options.negatives_drawn == "margin_bins" and getattr(self, "teacher", None) is None:
            yield "options.negatives_drawn: margin_bins are of the scores of a teacher's run; name one, or leave it out"
        yield from self.validation.problems(self.validation_run, recipe)

    @property
    def given(self) -> tuple[str, ...]:
        """What of `gives` the stage's batches have as it is told."""
        return self.gives

    def lacks(self, parts: Sequence[str]) -> str:
        """What is wrong with a loss that needs these."""
        kinds = {verb: load_plugin("stages", verb) for verb in plugin_names("stages")}
        fitting = [verb for verb, kind in kinds.items() if {*parts} <= {*getattr(kind, "gives", ())}]
        use = f"use it in stage {' or '.join(fitting)}, or " if fitting else "no stage gives that: "
        told = f"{self.loss.name} needs {', '.join(parts)}, which this stage's batches lack"
        return f"loss: {told}; {use}take another loss"

    def settings(self, source: ArtifactInput) -> Mapping[str, object]:
        """The loss, the options that count, and what the training came to in figures."""
        figures = {name: value for name, value in source.facts.items() if isinstance(value, int | float)}
        return {"loss": source.plugins["loss"], **options_in_key(self.options), **figures}

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """The models that were kept on the way."""
        return {f"checkpoints/{recipe.name}": KEPT}


class EncoderTrainingSpec(TrainingSpec):
    """What the stages that train an encoder have in common.

    segments: how documents are cut, each then scored by its best segment; none reads their first `document_length`
    tokens.
    """

    kind = "model"
    model: Annotated[Name, Reference(("model",))] = START
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)

    @property
    def parts(self) -> Mapping[str, str]:
        """A model."""
        return {"model": MODEL_FOLDER}

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        """That of its model."""
        return recipe.model_of(self.model)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Also a model that cannot learn or whose texts cannot be cut, and a loss for other scores than the model's."""
        start = self.began_with(recipe)
        found, family = start.similarity, resolve(start).known_family
        if family is not None and not family.trainable:
            yield "model: the recipe's model has no weights here, so it cannot be trained; name another model"
        if self.segments is not None and family is not None and family.form != "vectors":
            told = f"the recipe's model makes {FORM_WORDS[family.form]}, for which documents are not cut"
            yield f"segments: {told}; leave them out"
        if found is not None and (wanted := getattr(type(recipe.plugin("loss")), "similarity", found)) != found:
            told = f"{self.loss.name} is made for similarity {wanted}, and the model's is {found}"
            yield f"loss: {told}; say model.similarity: {wanted}, or take another loss"
        yield from super().problems(recipe)


def encoder_training(spec: EncoderTrainingSpec, sizes: Sizes) -> Row:
    """What it takes to train an encoder on queries with some documents each."""
    options, documents = spec.options, 1 + spec.options.negatives_per_query
    steps = options.last_step(sizes.queries("train"))
    rows, length = sizes.segments(spec.segments)
    tokens = sizes.model.query_length * 0.4 + documents * rows * length * 0.8
    size, at_once = options.batch_size, min(options.batch_size, options.chunk or options.batch_size)
    passes = (3 if at_once == size else 4) + options.gradient_checkpointing
    seconds = sizes.network_seconds(passes * steps * options.accumulate * size * tokens, learning=True)
    sent = sizes.exchanged(steps, learning_bytes(sizes), size * (1 + documents * rows) * sizes.dimension * 4)
    padded = sizes.model.query_length * 0.4 + documents * rows * length * sizes.padded
    kept = sizes.kept(at_once * padded, length, options)
    disk = (1 + kept_models(steps, options)) * sizes.shape.weights + 3 * learning_bytes(sizes)
    held = sizes.shape.weights + 3 * learning_bytes(sizes) + size * size * documents * _SCORE_BYTES
    held += sizes.rounded(options)
    seconds = max(seconds, sizes.machine.sending(sent)) + 5  # gradients are sent while others are computed
    return Row(steps, "steps", disk, PROCESS_BYTES, seconds, held, kept, sent)


def learning_bytes(sizes: Sizes) -> int:
    """Bytes of the weights that are trained: the model's, or an adapter's alone."""
    adapter, shape = sizes.model.adapter, sizes.shape
    return shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)


def kept_models(steps: int, options: TrainOptions) -> int:
    """How many models are kept on the way."""
    return steps // options.keep_every if options.keep_every else 0


def examples_of(collection: StoredCollection, negatives: ArtifactInput | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""

    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: ArtifactInput | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    lists = None if negatives is None else read_negatives(negatives.folder / NEGATIVES)
    known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
    if pseudo := pseudo_positives(negatives):
        known = with_positives(known, pseudo)
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


def pseudo_positives(negatives: ArtifactInput | None) -> Path | None:
    """The file of mined negatives, where it tells positives beside the collection's."""
    if negatives is None or not negatives.traits & {Trait.PSEUDO_POSITIVES, Trait.MORE_POSITIVES}:
        return None
    return negatives.folder / NEGATIVES


def validation(
    context: StageContext[EncoderTrainingSpec], collection: StoredCollection, encoder: "Encoder"
) -> Callable[[], Mapping[str, float]] | None:
    """Measures the encoder on the dev queries; None where the recipe names no run to take the pool from.

    The best weights are chosen by it, so it depends on nothing that was timed.
    """
    from hardneg.encoders.fastest import usual_budget
    from hardneg.encoders.inference import EncodeOptions
    from hardneg.training.validation import pool_validation

    if (data := validation_data(context, collection)) is None:
        return None
    data, settled = replace(data, segments=context.spec.segments), EncodeOptions(usual_budget(encoder.device))
    return pool_validation(encoder, data, context.spec.validation.depth, settled)


def validation_data(context: StageContext[TrainingSpec], collection: StoredCollection) -> "ValidationData | None":
    """The dev queries, their labels and a run of them; None where the recipe names no run."""
    from hardneg.training.validation import ValidationData

    if "validation_run" not in context.inputs:
        return None
    options = context.spec.validation
    queries = collection.queries(options.split)
    query_ids = queries.query_ids[: options.queries]
    return ValidationData(
        collection.corpus,
        query_ids,
        queries.texts[: options.queries],
        collection.qrels(options.split),
        _tops(context.inputs["validation_run"].folder / RUN, queries.query_ids, len(query_ids), options.depth),
    )


def _tops(path: Path, query_ids: Sequence[str], count: int, depth: int) -> Run:
    """The first `depth` documents of the first `count` queries: a run of all may be too large to hold."""
    lists = zip(query_ids, islice(lists_in_order(path, query_ids), count), strict=False)
    return {query_id: RankedList(ranked.doc_ids[:depth], ranked.scores[:depth]) for query_id, ranked in lists}


def save(
    context: StageContext[EncoderTrainingSpec],
    encoder: "Encoder",
    facts: Mapping[str, object],
    result: "TrainingResult",
) -> dict[str, Any]:
    """Saves the model with a card of these and the common facts; returns what the manifest says."""
    from hardneg.encoders.card import model_card

    options, model, cut = context.spec.options, context.inputs["model"], context.spec.segments
    base = model.name if model.model is None else model.model.name
    more = {"Documents": f"by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
    batch = f"{options.batch_size * options.accumulate} queries"
    said = {"Base model": base, **facts, **training_facts(context, result, batch, "over a pool", more)}
    encoder.save(context.folder / MODEL_FOLDER, card=model_card(encoder, said))
    return finished(context, result)


def learned(
    context: StageContext[TrainingSpec], method: "TrainingMethod", validate: Callable[[], Mapping[str, float]] | None
) -> "TrainingResult":
    """Trains by the stage's loss and options, in its folder."""
    from hardneg.training.loop import learn

    options = context.spec.options
    return learn(method, loss_of(context), options, context.folder, progress=context.progress, validate=validate)


def loss_of(context: StageContext[TrainingSpec]) -> Loss:
    """The loss that the stage trains by."""
    return context.plugin("loss", Loss)


def data_facts(corpus: Corpus, queries: int) -> dict[str, object]:
    """What a model card says of what was trained on."""
    return {"Dataset": f"{counted(len(corpus), 'passage')}, {counted(queries, 'training query')}"}


def training_facts(
    context: StageContext[TrainingSpec], result: "TrainingResult", batch: str, judged: str, more: Mapping[str, object]
) -> dict[str, object]:
    """What a model card says of the training, with what a batch was and over what the dev metric was taken."""
    options = context.spec.options
    rate = f"{options.optimizer}, peak learning rate {options.learning_rate:g}, seed {options.seed}"
    said = {"Loss": loss_of(context), "Training": f"{counted(result.steps, 'step')} of {batch}, {rate}"}
    best = f"{result.best:.4f} at step {result.best_step}" if result.best is not None else ""
    return {**said, **more, **({f"Dev {options.metric}, {judged}": best} if best else {})}


def finished(context: StageContext[TrainingSpec], result: "TrainingResult") -> dict[str, Any]:
    """Leaves the model, those that were kept on the way, and the learning curve; returns what the manifest says."""
    context.keep_only(MODEL_FOLDER, KEPT, HISTORY, SCRATCH)
    return result.facts(context.spec.options.metric)
