"""Types of recipe fields: references to stages, names of plugins, and files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer

from hardneg.datasets.held_out import Withheld
from hardneg.encoders.spec import AdapterSpec, ModelSpec, PromptName
from hardneg.formats.segments import Segments
from hardneg.formats.text_lines import find_file
from hardneg.records import BEIR, DataError, PluginSetting, UsageError
from hardneg.store import FREE as FREE, LATER as LATER, options_in_key

SECTION = "section"
"""The artifact type in a report's reference to a stage, of any verb, that can add a section to the report."""


class Trait(StrEnum):
    """Traits of an artifact that can rule it out as a stage's input. An external verb may define further traits."""

    TEXTS = "contains text, not vectors"
    SEGMENTS = "has several vectors per document"
    WEIGHTS = "has term weights, not vectors"
    TOKEN_VECTORS = "has one vector per token"
    COMPRESSED = "builds a compressed index"
    IMPORTED = "has imported vectors, whose model is unknown"
    ADDED_POSITIVES = "has added positives"
    PSEUDO_POSITIVES = "has pseudo-labelled positives"
    MORE_POSITIVES = "adds positives to those of the dataset"
    OWN_QUERIES = "has queries from a file"
    WRITTEN_QUERIES = "has generated queries"
    OF_POSITIVES = "searches with positives, not with queries"


@dataclass(frozen=True)
class Reference:
    """Marks a field as the name of a stage that writes one of the `artifact_types`.

    refuses: traits that make the artifact unusable here, each with advice on what to do instead. passes: traits that
    the result inherits from the artifact. with_model: whether the index's query encoder is an input too.
    """

    artifact_types: tuple[str, ...]
    refuses: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[str, ...] = ()
    with_model: bool = False


OF_QUERIES = {Trait.OF_POSITIVES: "use a run with `text_of: query`"}
MEASURED = Reference(("run",), refuses={Trait.ADDED_POSITIVES: "use a run without `positives` or `text_of`"})
"""Marks a field as the name of a run to evaluate."""


@dataclass(frozen=True)
class PluginKind:
    """Marks a field as the name (and options) of a plugin of `kind`.

    location_options: options that locate the plugin's content; cache keys use a digest of the content instead.
    """

    kind: str
    location_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputFile:
    """Marks a field as the path or paths of input files. Their content is part of the key. form: what they contain."""

    form: str


@dataclass(frozen=True)
class Option:
    """A field's command-line option; by default `--FIELD-NAME`, with the field's description as help.

    flag: the option's name, if not the default; `-` for no option. same: aliases of the option. argument: whether it is
    a positional argument instead. metavar: the form of the value in the help. one_of: a field that maps labels to
    paths; a path from it may be given instead of a label. placed: whether values are labelled by position, not by path.
    """

    flag: str = ""
    same: tuple[str, ...] = ()
    argument: bool = False
    metavar: str = ""
    one_of: str = ""
    placed: bool = False


def parse_setting(value: Any) -> Any:
    """Parse a plugin setting from `name`, `name:source` or a mapping with `name` and options; keep other values."""
    if isinstance(value, str):
        name, colon, source = value.partition(":")
        return PluginSetting(name, {"source": source} if colon else {})
    if isinstance(value, Mapping):
        if not isinstance(value.get("name"), str):
            raise ValueError("missing `name` of the plugin")
        name, colon, source = value["name"].partition(":")
        if colon:
            problem = f"name {value['name']!r} includes a source"
            raise ValueError(f"{problem}; in a mapping, write name: {name}, source: {source}")
        return PluginSetting(value["name"], {str(key): item for key, item in value.items() if key != "name"})
    return value


def parse_model(value: Any) -> Any:
    """Parse a model from its name or from a mapping; keep other values.

    In a mapping, `encoder` is a plugin setting, and `adapter` may be just the path of a trained adapter.
    """
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        return value
    if isinstance(adapter := value.get("adapter"), str):
        value = {**value, "adapter": {"source": adapter}}
    if value.get("encoder") is not None:
        value = {**value, "encoder": parse_setting(value["encoder"])}
    wanted, wrong = "must be a string (in quotes if it contains a colon) or {name: NAME} for a prompt of the model", []
    for name in ("query_prompt", "document_prompt"):
        prompt = value.get(name)
        named = isinstance(prompt, Mapping) and {*prompt} == {"name"} and isinstance(prompt["name"], str)
        if not named and not isinstance(prompt, str | PromptName | None):
            wrong.append(f"{name}: {wanted} (got {prompt!r:.60})")
    if wrong:
        raise ValueError("; ".join(wrong))
    return value


def parse_dataset(value: Any) -> Any:
    """Parse a dataset stage from a loader setting that may include stage options, or from a BEIR folder."""
    with suppress(OSError, ValueError, DataError):
        if isinstance(value, str) and find_file(Path(value), "corpus.jsonl"):
            value = f"{BEIR}:{value}"
    if not isinstance(value, Mapping):
        return {"loader": value}
    own = {name: value[name] for name in ("withheld", "exclude_own") if name in value}
    return {"loader": {name: item for name, item in value.items() if name not in own}, **own}


_Listed = TypeVar("_Listed", bound=Sequence[Any])
_Mark = TypeVar("_Mark")


def each_once(value: _Listed) -> _Listed:
    """Return the list `value` unchanged. Raises ValueError if an item is listed twice."""
    if twice := sorted({item for item in value if value.count(item) > 1}, key=str):
        raise ValueError(f"{twice[0]} is listed twice")
    return value


def parse_names(value: Any) -> Any:
    """Return a single name or plugin setting as a tuple of one item; keep other values, such as lists."""
    return (value,) if isinstance(value, str | Mapping) else value


def parse_dimensions(value: Any) -> Any:
    """Return weights by number of dimensions, largest first. Numbers in a list have weight 1. Keep other values."""
    if isinstance(value, list | tuple):
        value = dict.fromkeys(each_once(value), 1.0)
    if isinstance(value, Mapping):
        return dict(sorted(value.items(), key=lambda item: -int(item[0]) if str(item[0]).isdigit() else 0))
    return value


def known_metric(name: str, answers: bool = False) -> str:
    """Return a metric's name unchanged. Raises ValueError for unknown names. answers: whether `answer@k` is known."""
    from hardneg.evaluation import metrics

    try:
        if not (answers and metrics.answer_cutoffs([name])):
            metrics.parse_metrics([name])
    except UsageError as error:
        raise ValueError(str(error)) from None
    return name


def without_problems(options: Any) -> Any:
    """Return the options unchanged. Raises ValueError with everything that `options.problems()` returns."""
    if problems := options.problems():
        raise ValueError("; ".join(problems))
    return options


for _dataclass in (ModelSpec, AdapterSpec, Segments, Withheld):
    pydantic.with_config(pydantic.ConfigDict(extra="forbid"))(_dataclass)

Setting = Annotated[
    PluginSetting,
    BeforeValidator(parse_setting),
    PlainSerializer(lambda setting: {"name": setting.name, **setting.options}, dict[str, Any]),
]
MinerSetting = Annotated[Setting, PluginKind("miners")]
OwnMinerSetting = Annotated[Setting | None, PluginKind("miners")]
FilterSettings = Annotated[tuple[Setting, ...], BeforeValidator(parse_names), PluginKind("filters")]
WriterSettings = Annotated[
    tuple[Setting, ...], BeforeValidator(parse_names), PluginKind("writers"), Field(min_length=1)
]
LossSetting = Annotated[Setting, PluginKind("losses")]
RegularizerSetting = Annotated[Setting | None, PluginKind("regularizer")]
IndexSetting = Annotated[Setting, PluginKind("indexes")]
OwnIndexSetting = Annotated[Setting | None, PluginKind("indexes")]
Model = Annotated[ModelSpec, BeforeValidator(parse_model), AfterValidator(without_problems)]
Cut = Annotated[Segments, AfterValidator(without_problems)]
Kept = Annotated[
    Withheld,
    AfterValidator(without_problems),
    PlainSerializer(lambda kept: options_in_key(kept) | ({"halves": 2} if kept.halves else {})),  # the cut's version
]
OwnCut = Annotated[Cut | None, BeforeValidator(lambda value: None if value is False else value)]
"""Segmentation of documents; `false` turns it off even if the recipe has `segments`."""
Name = Annotated[str, Field(min_length=1)]
Dimensions = Annotated[
    dict[pydantic.PositiveInt, pydantic.PositiveFloat],
    BeforeValidator(parse_dimensions, json_schema_input_type=Any),
    Field(min_length=1),
]
"""The weight of the loss at each number of dimensions; in a list, each has a weight of 1."""
MetricName = Annotated[str, AfterValidator(known_metric)]
MeasureName = Annotated[str, AfterValidator(lambda name: known_metric(name, answers=True))]
"""The name of a metric, including `answer@k`."""
AnswerMatch = Literal["string", "regex"]
RELEVANT = "Lowest grade that binary metrics count as relevant (trec_eval -l)."
SPLIT = "Split of the queries."


def has_answers(collection: Mapping[str, Any], split: str) -> bool:
    """Return whether the queries of a split have answers, according to the facts of stage `dataset`."""
    return bool(collection["splits"].get(split, {}).get("with_answers"))


def marked(model: BaseModel, mark: type[_Mark]) -> Iterator[tuple[str, _Mark, Any]]:
    """Yield the path, mark and value of each field marked with `mark`, including those in nested models and containers.

    In a path, a model in a list is identified by its name if it has one, any other list item by its position.
    """
    for field_name, info in type(model).model_fields.items():
        found = next((each for each in info.metadata if isinstance(each, mark)), None)
        waiting = [(field_name, getattr(model, field_name))]
        while waiting:
            path, value = waiting.pop(0)
            if isinstance(value, Mapping | list | tuple):
                inner = value.items() if isinstance(value, Mapping) else enumerate(value)
                waiting[:0] = [(f"{path}.{_key(key, item)}", item) for key, item in inner]
            elif isinstance(value, BaseModel):
                yield from ((f"{path}.{below}", each, held) for below, each, held in marked(value, mark))
            elif found is not None and value is not None:
                yield path, found, value


def _key(key: object, item: object) -> object:
    return getattr(item, "name", key) if type(key) is int and isinstance(item, BaseModel) else key
