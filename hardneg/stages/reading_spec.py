"""What a recipe may say of readers."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, with_config

from hardneg.fields import FREE, Name, Reference, Trait, has_answers, parse_model, without_problems
from hardneg.layout import MODEL_FOLDER
from hardneg.models.spec import ModelSpec
from hardneg.reading.spec import ReaderSpec
from hardneg.stages.spec import RecipeView, StageSpec
from hardneg.stages.training_common import Validation
from hardneg.training.reading.options import ReaderOptions

if TYPE_CHECKING:
    from hardneg.reporting.table import Section
    from hardneg.stages.context import ArtifactInput

for _dataclass in (ReaderSpec, ReaderOptions):
    with_config(ConfigDict(extra="forbid"))(_dataclass)

_Run = Annotated[Name, Reference(("run",), passes=(Trait.OWN_QUERIES,))]
_Passages = Annotated[int, Field(gt=0)]


class TrainReaderSpec(StageSpec):
    """Trains a reader on the first `depth` passages of a run over the questions of one split.

    validation: on which dev questions, and how many passages of `validation_run` for each (`depth`).
    """

    version = 1
    every_process = True
    kind = "reader"
    needs_dataset = True
    resumes = True
    stage: Literal["train-reader"]
    reader: Annotated[ReaderSpec, BeforeValidator(parse_model), AfterValidator(without_problems)]
    run: _Run
    split: Name = "train"
    depth: int = Field(default=100, gt=0)
    options: Annotated[ReaderOptions, AfterValidator(without_problems)] = Field(default_factory=ReaderOptions)
    validation_run: Annotated[Name | None, Reference(("run",))] = None
    validation: Validation = Validation()

    @property
    def parts(self) -> Mapping[str, str]:
        """A reader, in a folder of its own."""
        return {"reader": MODEL_FOLDER}

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """What it starts from."""
        return self.reader.start

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers to learn from, and to measure by."""
        splits = {"split": self.split, **({"validation.split": self.validation.split} if self.validation_run else {})}
        for field, split in splits.items():
            if not has_answers(collection, split):
                yield f"{field}: {split} has no answers: take another split or dataset"

    def identity(self) -> dict[str, Any]:
        """The reader's start counts by its content, apart from this."""
        reader = {"length": self.reader.length, "answer_length": self.reader.answer_length}
        return {**super().identity(), "reader": reader, "options": self.options.identity()}


class ReadSpec(StageSpec):
    """Reads the answers to the questions of one split from the first passages of a run, and measures them.

    passages: how many to read; several numbers give answers and measures for each.
    """

    version = 1
    kind = "answers"
    needs_dataset = True
    resumes = True
    stage: Literal["read"]
    reader: Annotated[Name, Reference(("reader",))]
    run: _Run
    split: Name = "test"
    passages: Annotated[tuple[_Passages, ...], BeforeValidator(lambda v: (v,) if isinstance(v, int) else v)] = Field(
        (100,), min_length=1
    )
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    def sections(self, sources: "Mapping[str, ArtifactInput]") -> "list[Section]":
        """One table of all that was read."""
        from hardneg.stages.reading_sections import reading_sections

        return reading_sections(sources)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers to measure by."""
        if not has_answers(collection, self.split):
            yield f"split: {self.split} has no answers: take another split or dataset"
