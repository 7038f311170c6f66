"""What a recipe says of rerankers: how one is trained, and what it reranks."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator, with_config

from hardneg.stages.learning_spec import Validation
from hardneg.stages.spec_parts import FREE, Loss, Name, PluginKind, Reference, Setting, StageSpec, without_problems
from hardneg.training.options import RerankerOptions
from hardneg.types import PluginSetting

with_config(ConfigDict(extra="forbid"))(RerankerOptions)


class TrainRerankerSpec(StageSpec):
    """Trains a reranker on mined negatives, each query's documents against each other.

    start: the stage whose weights it goes on from, of the same plugin; by default the plugin's source.
    validation: how many dev queries, and how many documents of `validation_run` for each (`depth`).
    """

    version = 1
    kind = "reranker"
    gives: ClassVar[tuple[str, ...]] = ()
    needs_dataset = True
    resumes = True
    stage: Literal["train-reranker"]
    reranker: Annotated[Setting, PluginKind("rerankers")]
    start: Annotated[Name | None, Reference(("reranker",))] = None
    negatives: Annotated[Name, Reference(("negatives",))]
    loss: Loss = PluginSetting("bce")
    options: Annotated[RerankerOptions, AfterValidator(without_problems)] = Field(default_factory=RerankerOptions)
    validation_run: Annotated[Name | None, Reference(("run",))] = None
    validation: Validation = Validation()

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}


class RerankSpec(StageSpec):
    """Scores the best documents of a run anew, query and document together.

    reranker: the stage that trained it, or plugin: one to take as it is. positives: the known positives that a list
    lacks are scored too, wherever they come to stand: for filters on training queries, never for evaluation.
    keep_scores: those of trained networks are kept by content in the user's cache, for all runs on this machine.
    """

    version = 1
    kind = "run"
    needs_dataset = True
    resumes = True
    stage: Literal["rerank"]
    reranker: Annotated[Name | None, Reference(("reranker",))] = None
    plugin: Annotated[Setting | None, PluginKind("rerankers")] = None
    run: Annotated[Name, Reference(("run",))]
    split: Name = "test"
    depth: int = Field(default=50, gt=0)
    positives: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)
    keep_scores: bool = Field(default=True, json_schema_extra=FREE)

    @model_validator(mode="after")
    def _complete(self) -> "RerankSpec":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("give reranker, the name of a stage that trains one, or plugin, one of them")
        return self

    def plugins(self) -> Iterator[tuple[str, str, PluginSetting]]:
        """The plugin, where one is named."""
        return ((field, kind, setting) for field, kind, setting in super().plugins() if setting is not None)
