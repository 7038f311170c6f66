"""All that a recipe may say: one frozen model a stage, references to other stages marked by the kind they need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    with_config,
)

from hardneg.models.spec import ModelSpec
from hardneg.training.options import TrainOptions
from hardneg.types import PluginSetting

START = "start"
DATASET = "dataset"
FREE: dict[str, JsonValue] = {"in_identity": False}


@dataclass(frozen=True)
class Reference:
    """Marks a field as the name of a stage that makes one of `kinds`."""

    kinds: tuple[str, ...]


@dataclass(frozen=True)
class PluginKind:
    """Marks a field as the name (and options) of a plugin of `kind`."""

    kind: str


def parse_setting(value: Any) -> Any:
    """A plugin setting from `name`, `name:source` or a mapping with `name` and options."""
    if isinstance(value, str):
        name, colon, source = value.partition(":")
        return PluginSetting(name, {"source": source} if colon else {})
    if isinstance(value, Mapping):
        if not isinstance(value.get("name"), str):
            raise ValueError("a plugin needs its `name`")
        return PluginSetting(value["name"], {str(key): item for key, item in value.items() if key != "name"})
    return value


def _show_setting(setting: PluginSetting) -> dict[str, Any]:
    return {"name": setting.name, **setting.options}


def parse_model(value: Any) -> Any:
    """A model from its name alone, or from a mapping."""
    return {"name": value} if isinstance(value, str) else value


class _Checked(Protocol):
    def problems(self) -> list[str]: ...


_Options = TypeVar("_Options", bound=_Checked)


def _without_problems(options: _Options) -> _Options:
    if found := options.problems():
        raise ValueError("; ".join(found))
    return options


for _dataclass in (ModelSpec, TrainOptions):
    with_config(ConfigDict(extra="forbid"))(_dataclass)

Setting = Annotated[PluginSetting, BeforeValidator(parse_setting), PlainSerializer(_show_setting)]
Dataset = Annotated[Setting, PluginKind("datasets")]
Miner = Annotated[Setting, PluginKind("miners")]
Loss = Annotated[Setting, PluginKind("losses")]
Backend = Annotated[Setting, PluginKind("indexes")]
Model = Annotated[ModelSpec, BeforeValidator(parse_model), AfterValidator(_without_problems)]
Name = Annotated[str, Field(min_length=1)]


class StageSpec(BaseModel):
    """What every stage has.

    version: raised when the same spec and inputs give another result. kind: what the stage makes. resumes: it goes on
    from what a stopped run left in its folder; the others find it empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: ClassVar[int]
    kind: ClassVar[str]
    needs_dataset: ClassVar[bool] = False
    resumes: ClassVar[bool] = False

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every reference: its path in this spec, the stage it names, and what it needs."""
        for field, info in type(self).model_fields.items():
            marks = [mark for mark in info.metadata if isinstance(mark, Reference)]
            value = getattr(self, field)
            if not marks or value is None:
                continue
            if isinstance(value, Mapping):
                yield from ((f"{field}.{label}", name, marks[0]) for label, name in value.items())
            else:
                yield field, value, marks[0]

    def plugins(self) -> Iterator[tuple[str, str, PluginSetting]]:
        """Every plugin setting: its field, its kind, its value."""
        for field, info in type(self).model_fields.items():
            for mark in info.metadata:
                if isinstance(mark, PluginKind):
                    yield field, mark.kind, getattr(self, field)

    def identity(self) -> dict[str, Any]:
        """The fields that may change the result, defaults included; references and plugins are added by their keys."""
        names = {
            name
            for name, info in type(self).model_fields.items()
            if name != "stage"
            and info.json_schema_extra != FREE
            and not any(isinstance(mark, Reference | PluginKind) for mark in info.metadata)
        }
        return self.model_dump(mode="json", include=names)


class DatasetSpec(StageSpec):
    """Reads the collection into Arrow files: stage `dataset`, made from the recipe's `dataset`."""

    version = 1
    kind = "collection"
    stage: Literal["dataset"] = "dataset"
    loader: Dataset


class EncodeSpec(StageSpec):
    """Encodes the corpus into a flat index, which is the vector store too."""

    version = 2
    kind = "index"
    needs_dataset = True
    resumes = True
    stage: Literal["encode"]
    model: Annotated[Name, Reference(("model",))] = START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)


class IndexSpec(StageSpec):
    """Builds an index over the corpus's texts, such as BM25's, or over the `vectors` of a flat index."""

    version = 1
    kind = "index"
    needs_dataset = True
    stage: Literal["index"]
    backend: Backend
    vectors: Annotated[Name | None, Reference(("index",))] = None


class SearchSpec(StageSpec):
    """Searches an index for the queries of one split; queries are encoded in fp32, as Pyserini does it.

    model: encodes the queries; by default the model that encoded the index.
    """

    version = 1
    kind = "run"
    needs_dataset = True
    stage: Literal["search"]
    index: Annotated[Name, Reference(("index",))]
    model: Annotated[Name | None, Reference(("model",))] = None
    split: Name = "test"
    depth: int = Field(default=100, gt=0)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"


class MineSpec(StageSpec):
    """Selects negatives for the queries of one split; the first of `runs` is the list to select from."""

    version = 1
    kind = "negatives"
    needs_dataset = True
    stage: Literal["mine"]
    miner: Miner
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    split: Name = "train"
    seed: int = 42


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class TrainSpec(StageSpec):
    """Trains a dual encoder on mined negatives."""

    version = 1
    kind = "model"
    needs_dataset = True
    resumes = True
    stage: Literal["train"]
    model: Annotated[Name, Reference(("model",))] = START
    negatives: Annotated[Name, Reference(("negatives",))]
    loss: Loss
    options: Annotated[TrainOptions, AfterValidator(_without_problems)] = Field(default_factory=TrainOptions)
    validation_run: Annotated[Name | None, Reference(("run",))] = None
    validation: Validation = Validation()

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}


class EvaluateSpec(StageSpec):
    """Scores runs on one split and compares them pairwise; `runs` maps a row's label to a stage."""

    version = 1
    kind = "metrics"
    needs_dataset = True
    stage: Literal["evaluate"]
    runs: Annotated[dict[str, Name], Reference(("run",))]
    split: Name = "test"
    metrics: tuple[Name, ...] = ("mrr@10", "ndcg@10", "recall@100")
    relevance_level: int = Field(1, gt=0)
    baselines: tuple[str, ...] = ()
    seed: int = 42

    def identity(self) -> dict[str, Any]:
        """The order and the names of the rows count too."""
        return {**super().identity(), "labels": list(self.runs)}


class ReportSpec(StageSpec):
    """Writes the table, the tests and the training curves as Markdown and as one HTML page."""

    version = 1
    kind = "report"
    stage: Literal["report"]
    evaluation: Annotated[Name, Reference(("metrics",))]
    training: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    title: str = ""


AnyStage = EncodeSpec | IndexSpec | SearchSpec | MineSpec | TrainSpec | EvaluateSpec | ReportSpec
STAGES: Mapping[str, type[StageSpec]] = {
    "encode": EncodeSpec,
    "index": IndexSpec,
    "search": SearchSpec,
    "mine": MineSpec,
    "train": TrainSpec,
    "evaluate": EvaluateSpec,
    "report": ReportSpec,
}
