"""Verb `train-reader`, which trains a reader on the ranked passages of questions and validates it on dev questions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, with_config

import hardneg.plugin as hp

if TYPE_CHECKING:
    from hardneg_reader.answering import Question
    from hardneg_reader.reader import Reader


@dataclass(frozen=True)
class ReaderSpec:
    """A network that reads a question and a passage together and marks an answer in the passage.

    Attributes:
        name: a folder, a hub id, or `packaged:all-MiniLM-L6-v2`; an encoder with or without a question-answering head.
        revision: a branch, tag or commit of a hub id.
        length: maximum number of tokens of question and passage, with special ones; the longer one is truncated first.
        answer_length: maximum number of tokens of an answer.
    """

    name: str
    revision: str | None = None
    length: int = 350
    answer_length: int = 10

    @property
    def start(self) -> hp.model_specs.ModelSpec:
        """The model spec of the initial weights: `name` and `revision`."""
        return hp.model_specs.ModelSpec(self.name, self.revision)

    def problems(self) -> list[str]:
        """Return one message per invalid field."""
        lines = []
        if not self.name.strip():
            lines.append("name is empty; set a folder, a hub id or packaged:all-MiniLM-L6-v2")
        if self.length < 8:
            lines.append(f"length is {self.length}; it must be at least 8")
        if self.answer_length < 1:
            lines.append(f"answer_length is {self.answer_length}; it must be at least 1")
        return lines


_Options = hp.training_options.LearningOptions


@dataclass(frozen=True)
class ReaderOptions(_Options):
    """Training options with a reader's defaults: one passage with an answer and 23 without, 16 questions per batch.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """

    batch_size: int = hp.training_options.with_default(_Options, "batch_size", 16)
    negatives_per_query: int = hp.training_options.with_default(_Options, "negatives_per_query", 23)
    learning_rate: float = hp.training_options.with_default(_Options, "learning_rate", 1e-5)
    metric: str = hp.training_options.with_default(_Options, "metric", "exact_match")

    def mistakes(self) -> Iterator[str]:
        """Yield a message for options without effect on a reader."""
        if self.iterate_negatives:
            yield "iterate_negatives has no effect on a reader, which draws passages in each epoch; remove it"


with_config(ConfigDict(extra="forbid"))(ReaderSpec)


class TrainReader(hp.train_config.ValidationOptions):
    """Trains a reader on the first `depth` passages of a run for the questions of one split."""

    version = 1
    artifact_type = "reader"
    purpose = "train a network to find the answer in a passage"
    needs_dataset = True
    resumes = True
    every_process = True
    stage: Literal["train-reader"]
    reader: Annotated[
        ReaderSpec, BeforeValidator(hp.fields.parse_model), AfterValidator(hp.fields.without_problems)
    ] = Field(description="Initial network of the reader.")
    run: Annotated[hp.fields.Name, hp.fields.Reference(("run",), passes=(hp.fields.Trait.OWN_QUERIES,))] = Field(
        description="Run with the ranked passages of the questions."
    )
    split: hp.fields.Name = Field(default="train", description="Split of the training questions.")
    depth: int = Field(default=100, gt=0, description="Number of top passages per question to train on.")
    options: Annotated[ReaderOptions, AfterValidator(hp.fields.without_problems)] = Field(
        default_factory=ReaderOptions, description=hp.train_config.OF_THE_RUN
    )

    def identity(self) -> dict[str, Any]:
        """Return the options that may change the result, and a function for a digest of the initial weights."""
        reader = {"length": self.reader.length, "answer_length": self.reader.answer_length}

        def start(recipe: hp.stages.RecipeView) -> str:
            folder = hp.model_files.locate(self.reader.start.name, self.reader.start.revision)
            return hp.stores.digest(hp.resolving.model_content(folder))

        return {**super().identity(), "reader": reader, "options": self.options.identity(), "start": start}

    def network(self, recipe: hp.stages.RecipeView) -> hp.model_specs.ModelSpec:
        """Return the model spec of the initial network, for estimates and lookups."""
        return self.reader.start

    def mistakes(self, recipe: hp.stages.RecipeView) -> Iterator[str]:
        """Yield a message for each split without answers."""
        splits = {"split": self.split, **({"validation.split": self.validation.split} if self.validation_run else {})}
        for field, split in splits.items():
            if recipe.collection is not None and not hp.fields.has_answers(recipe.collection, split):
                yield f"{field}: {split} has no answers; use another split or dataset"

    def estimate(self, sizes: hp.stages.Sizes) -> hp.stages.Row:
        """Return the number of training steps, and disk space of 4 bytes per weight of the network."""
        return hp.stages.Row(self.options.last_step(sizes.queries(self.split)), "steps", 4 * sizes.network.weights)

    def publishes(self, recipe: hp.stages.RecipeView) -> Mapping[str, str]:
        """Return the artifact's folders with the reader and intermediate models, by path in the run folder."""
        return {f"readers/{recipe.name}": hp.layout.MODEL_FOLDER, f"checkpoints/{recipe.name}": hp.stores.KEPT}

    def make(self, context: "hp.StageContext[TrainReader]") -> hp.stages.Facts:
        """Train the reader and save it with its training history; return facts such as steps and the best metric."""
        from hardneg_reader.reader import Reader
        from hardneg_reader.training import ReaderTraining, ReadingLoss, reading_data

        collection = hp.StoredCollection.open(context.inputs["dataset"].folder)
        reader = Reader.load(self.reader, self.options.seed, context.device)
        answers, known = collection.answers(self.split), hp.qrels_files.positives(collection.all_qrels())
        data = reading_data(reader, collection.corpus, self._questions(context, collection), answers, known)
        result = hp.learn(
            ReaderTraining(reader, data, self.options),
            ReadingLoss(),
            self.options,
            context.folder,
            progress=context.progress,
            validate=self._validation(context, collection, reader),
        )
        if hp.runtime.world().rank > 0:
            return {}
        reader.save(context.folder / hp.layout.MODEL_FOLDER)
        context.keep_only(hp.layout.MODEL_FOLDER, hp.stores.KEPT, hp.layout.HISTORY, hp.stores.SCRATCH)
        return result.facts(self.options.metric)

    def _questions(
        self, context: "hp.StageContext[TrainReader]", collection: hp.StoredCollection
    ) -> "Iterator[Question]":
        from hardneg_reader.answering import questions

        total, run = len(collection.queries(self.split)), context.inputs["run"].folder / hp.layout.RUN
        with context.progress.task("passages with an answer", total, "questions") as task:
            for question in questions(collection, self.split, run, self.depth):
                yield question
                task.advance()

    def _validation(
        self, context: "hp.StageContext[TrainReader]", collection: hp.StoredCollection, reader: "Reader"
    ) -> Callable[[], Mapping[str, float]] | None:
        from hardneg_reader.answering import questions
        from hardneg_reader.training import reading_validation

        if "validation_run" not in context.inputs:
            return None
        options, run = self.validation, context.inputs["validation_run"].folder / hp.layout.RUN
        some = list(islice(questions(collection, options.split, run, options.depth), options.queries))
        return reading_validation(reader, collection.corpus, some, collection.answers(options.split))
