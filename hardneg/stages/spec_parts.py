"""What the specs of all stages are made of: references to other stages, plugins by name, the base of a stage."""

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

from hardneg.data.segments import Segments
from hardneg.datasets.held_out import Withheld
from hardneg.errors import UsageError
from hardneg.evaluation.answer_coverage import answer_cutoffs
from hardneg.evaluation.metrics import parse_metrics
from hardneg.models.spec import ModelSpec
from hardneg.training.options import TrainOptions
from hardneg.types import PluginSetting

START = "start"
DATASET = "dataset"
FREE: dict[str, JsonValue] = {"in_identity": False}
LATER: dict[str, JsonValue] = {"in_identity": "unless it has its default"}
"""For a field that artifacts were made without: it counts where it has another value than its default."""


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


def parse_dataset(value: Any) -> Any:
    """The dataset's stage from its loader's setting; what is withheld stands among the loader's options."""
    if isinstance(value, Mapping) and "withheld" in value:
        loader = {name: item for name, item in value.items() if name != "withheld"}
        return {"loader": loader, "withheld": value["withheld"]}
    return {"loader": value}


def parse_cut(value: Any) -> Any:
    """How documents are cut; `false` is not at all, where the recipe's own `segments` would be used."""
    return None if value is False else value


def parse_names(value: Any) -> Any:
    """A list of names from one name, or from a list."""
    return (value,) if isinstance(value, str) else value


class _Checked(Protocol):
    def problems(self) -> list[str]: ...


def known_metric(name: str) -> str:
    """The name of a metric of judged lists; a ValueError where there is no such metric."""
    try:
        parse_metrics([name])
    except UsageError as error:
        raise ValueError(str(error)) from None
    return name


def known_measure(name: str) -> str:
    """The name of a metric, `answer@k` among them."""
    return name if answer_cutoffs([name]) else known_metric(name)


_Options = TypeVar("_Options", bound=_Checked)


def without_problems(options: _Options) -> _Options:
    """The options, unless they have problems of their own: then a ValueError with all of them."""
    if found := options.problems():
        raise ValueError("; ".join(found))
    return options


for _dataclass in (ModelSpec, Segments, TrainOptions, Withheld):
    with_config(ConfigDict(extra="forbid"))(_dataclass)

Setting = Annotated[PluginSetting, BeforeValidator(parse_setting), PlainSerializer(_show_setting)]
Dataset = Annotated[Setting, PluginKind("datasets")]
Miner = Annotated[Setting, PluginKind("miners")]
Loss = Annotated[Setting, PluginKind("losses")]
Backend = Annotated[Setting, PluginKind("indexes")]
Model = Annotated[ModelSpec, BeforeValidator(parse_model), AfterValidator(without_problems)]
Cut = Annotated[Segments, AfterValidator(without_problems)]
Kept = Annotated[Withheld, AfterValidator(without_problems)]
OwnCut = Annotated[Cut | None, BeforeValidator(parse_cut)]
Name = Annotated[str, Field(min_length=1)]
MetricName = Annotated[str, AfterValidator(known_metric)]
MeasureName = Annotated[str, AfterValidator(known_measure)]
AnswerMatch = Literal["string", "regex"]


def has_answers(collection: Mapping[str, Any], split: str) -> bool:
    """Whether the queries of a split have answers, by what stage `dataset` told of the collection."""
    return bool(collection["splits"].get(split, {}).get("with_answers"))


def marked_references(model: BaseModel) -> Iterator[tuple[str, str, Reference]]:
    """The references in a model's marked fields: path, the stage that is named, and what is needed of it."""
    for field, info in type(model).model_fields.items():
        marks = [mark for mark in info.metadata if isinstance(mark, Reference)]
        value = getattr(model, field)
        if not marks or value is None:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{field}.{label}", name, marks[0]) for label, name in value.items())
        else:
            yield field, value, marks[0]


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

    @property
    def makes(self) -> tuple[str, ...]:
        """The kinds of reference that this stage can be the target of."""
        return (self.kind,)

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every reference: its path in this spec, the stage it names, and what it needs."""
        return marked_references(self)

    def plugins(self) -> Iterator[tuple[str, str, PluginSetting]]:
        """Every plugin setting: its field, its kind, its value."""
        for field, info in type(self).model_fields.items():
            for mark in info.metadata:
                if isinstance(mark, PluginKind):
                    yield field, mark.kind, getattr(self, field)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """What this stage asks of the collection in vain, one line each; `collection` is what stage `dataset` told."""
        yield from ()

    def identity(self) -> dict[str, Any]:
        """The fields that may change the result, defaults included; references and plugins are added by their keys."""
        names = {
            name
            for name, info in type(self).model_fields.items()
            if name != "stage"
            and info.json_schema_extra != FREE
            and (info.json_schema_extra != LATER or getattr(self, name) != info.default)
            and not any(isinstance(mark, Reference | PluginKind) for mark in info.metadata)
        }
        return self.model_dump(mode="json", include=names)
