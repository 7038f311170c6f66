"""Arguments of public functions: help texts, command-line forms, and checks of values."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar, Union, get_args, get_origin

from hardneg import recipes
from hardneg.records import complaint, errors, layout
from hardneg.registry import load_plugin
from hardneg.runtime import SEED, Progress

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

REQUIRED: Any = ...
"""The default that marks an argument as required."""

MACHINE, WRITTEN = "Machine", "Output"
_FEW = 4
"""Maximum number of values to list as choices in the help; longer lists are only completed."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Arg:
    """The help text of an argument, and the properties of its option that do not follow from name, type and default.

    objects: a text on the objects that Python code may also pass. cli: the command-line type; a dict is a repeatable
    NAME=VALUE. flag: the option's name; same: aliases. default: replaces None in the signature. plugin: the kind of
    plugin that the value names; `--option` sets the plugin's options. panel: the heading in the help. words:
    completions; metrics: whether to complete metric names. least: the minimum. operand: whether it is positional.
    """

    help: str
    objects: str = ""
    cli: Any = None
    flag: str = ""
    same: tuple[str, ...] = ()
    default: Any = None
    plugin: str = ""
    metavar: str = ""
    panel: str = ""
    words: Sequence[str] = ()
    metrics: bool = False
    least: int | None = None
    operand: bool = False
    name: str = ""

    def __repr__(self) -> str:
        return repr(f"{self.help} Or {self.objects}." if self.objects else self.help)


Setting = str | Mapping[str, Any]
"""A plugin: its name, or a dict with `name` and the plugin's options."""
Dataset = Annotated[
    str | Path | Mapping[str, Any] | Any,
    Arg(
        "beir:FOLDER, documents:FOLDER, hf:ID, pydocs, or a plugin's name.",
        "a folder, a DataFrame or Dataset of pairs, or a dict of corpus, queries and qrels",
        plugin="datasets",
    ),
]
Model = Annotated[
    str | Path | Any,
    Arg(
        "A folder, a hub id, or packaged:all-MiniLM-L6-v2.",
        "the result of `train`, or a `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder` in memory",
    ),
]
AnyRun = Annotated[
    str | Path | Mapping[str, Mapping[str, float]] | Any,
    Arg("A TREC run, plain or gzipped.", "the result of `search`, or scores by query id and document id", cli=Path),
]
Runs = Annotated[
    str | Path | Mapping[str, Any] | Sequence[Any] | Any,
    Arg(
        "A TREC run, plain or gzipped; may be repeated.",
        "the result of `search`, or scores by query id and document id; several in a list or in a dict by label",
        cli=list[Path],
        flag="run",
    ),
]
AnyQrels = Annotated[
    str | Path | Mapping[str, Mapping[str, int] | Iterable[str]],
    Arg("Judgements in TREC or BEIR format, plain or gzipped.", "grades by query id and document id", cli=Path),
]
Settings = Annotated[
    Sequence[str] | Mapping[str, Any],
    Arg("Set any recipe value, such as model.document_length=256.", cli=list[str], flag="set", metavar="PATH=VALUE"),
]
_STORE = "The artifact store; default: $HARDNEG_STORE or ~/.cache/hardneg/store."
Store = Annotated[str | Path | None, Arg(_STORE, cli=Path, metavar="PATH", panel=MACHINE)]
Device = Annotated[
    str | None, Arg("cpu, cuda, cuda:1, mps; default: the best available.", panel=MACHINE, words=("cpu", "cuda", "mps"))
]
_ENGINE = "The engine that runs encode, search, mine and rerank; `hardneg plugins list engine` shows all."


class Where(TypedDict, total=False):
    """Keyword arguments that every function accepts."""

    settings: Annotated[Sequence[str] | Mapping[str, Any], replace(get_args(Settings)[1], default=())]
    store: Store
    device: Device
    engine: Annotated[Setting, Arg(_ENGINE, cli=str, default=layout.LOCAL, plugin="engine", panel=MACHINE)]
    seed: Annotated[int, Arg("The random seed.", default=SEED)]
    progress: Annotated[bool | Progress, Arg("Show progress bars.", "an object that does", cli=bool, default=False)]


Split = Annotated[str | None, Arg("Split of the queries.", default="test")]
"""None selects the default or, if a dataset in memory has only one split, that split."""
TrainSplit = Annotated[Split, replace(get_args(Split)[1], default="train")]
VectorIndex = Annotated[
    str | Path | Any,
    Arg("A dense index folder to search with query vectors, instead of a model.", "the result of `encode`", cli=Path),
]
VectorFile = Annotated[
    str | Path, Arg("Query vectors: Parquet, JSON Lines, or a .npy array with a separate file of ids.", cli=Path)
]
VectorIds = Annotated[str | Path, Arg("The query ids for the rows of a .npy array, one per line.", cli=Path)]
TRAIN_OPTION = Arg(
    "A training option, such as max_steps=200. Defaults: one epoch, batch_size=32, learning_rate per kind of model.",
    cli=dict[str, Any],
    flag="train-option",
    metavar="KEY=VALUE",
)


class AnalyzeArguments(Where, total=False):
    """Arguments that every analysis accepts in addition to its own fields."""

    qrels: AnyQrels | None
    queries: Annotated[str | Path | None, Arg("Queries: BEIR's queries.jsonl, or rows of id, tab, text.")]
    corpus: Annotated[str | Path | None, Arg("BEIR's corpus.jsonl, for the document texts.")]
    withheld: Annotated[AnyQrels | None, Arg("Judgements hidden from filters.", "grades by query id and document id")]
    relevance_level: Annotated[
        int, Arg("Lowest grade that binary metrics count as relevant (trec_eval -l).", default=1)
    ]
    run_folder: Annotated[str | Path | None, Arg("The run folder of a finished recipe.")]


def arg_of(annotation: Any) -> Arg | None:
    """Return the outermost `Arg` in an annotation; None if there is none."""
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        marks = [each for each in inner if isinstance(each, Arg)]
        return marks[-1] if marks else arg_of(inner[0])
    return next(filter(None, map(arg_of, inner)), None)


def arguments_of(function: Callable[..., Any]) -> dict[str, Arg]:
    """Return a function's arguments by name, with names, types and defaults filled in; shared arguments come last."""
    arguments = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind != Parameter.VAR_KEYWORD and (arg := arg_of(each.annotation)):
            default = REQUIRED if each.default is Parameter.empty else each.default
            default, form = arg.default if default is None else default, arg.cli or _form(each.annotation)
            words = arg.words or (get_args(form) if get_origin(form) is Literal else ())
            form = str if len(words) > _FEW else form
            arguments[each.name] = replace(arg, name=each.name, cli=form, default=default, words=words)
    return arguments


def options_of(options: type) -> dict[str, Arg]:
    """Return the arguments that a TypedDict declares, by name; the arguments of `Where` come last."""
    marks = {name: arg_of(annotation) for name, annotation in options.__annotations__.items()}
    names = sorted(marks, key=lambda name: name in Where.__annotations__)
    return {
        name: replace(arg, name=name, cli=arg.cli or _form(options.__annotations__[name]))
        for name in names
        if (arg := marks[name])
    }


def _form(annotation: Any) -> Any:
    """The command-line type for an annotation: int, float, bool, a Literal, else str."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Union, UnionType):
        return _form(inner[0])
    return annotation if origin is Literal or annotation in (int, float, bool) else str


def spelled_out(function: _Function, options: type | None = None) -> _Function:
    """Spell out the keywords of `**name: Unpack[...]` in a function's signature, for notebooks; return the function.

    options: the TypedDict to list if `**name` has another annotation; `**name` then stays, for further arguments.
    """
    signature = inspect.signature(function)
    *named, rest = signature.parameters.values()
    listed = options or get_args(rest.annotation)[0]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=arg.default, annotation=listed.__annotations__[name])
        for name, arg in options_of(listed).items()
    ]
    kept = [] if options is None else [rest]
    function.__signature__ = signature.replace(parameters=[*named, *more, *kept])  # type: ignore[attr-defined]
    return function


def refused(argument: str, value: Any, wanted: str) -> errors.UsageError:
    """Return the error for an argument with an unsuitable value; wanted: what the value must be."""
    return errors.UsageError(f"{{{argument}}}: must be {wanted}, not {value!r:.60}", argument)


def names_of(argument: str, value: Any) -> list[str]:
    """Return one or several names as a list. Raises UsageError if one is not a string."""
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if odd := [name for name in names if not isinstance(name, str)]:
        raise refused(argument, odd[0], "a name or a list of names")
    return names


def name_of(argument: str, value: Any) -> str:
    """Return `value` if it is a non-empty string. Raises UsageError otherwise."""
    if isinstance(value, str) and value:
        return value
    raise refused(argument, value, "a name")


def mapping_of(argument: str, value: Any) -> dict[str, Any]:
    """Return a mapping as a dict. Raises UsageError if the value is not a mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    raise refused(argument, value, "a dict of values by name")


def file_path(value: Any, argument: str = "path") -> Path:
    """Return a path with `~` expanded. Raises UsageError if the value is not a valid path."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(text, str) and text and "\0" not in text and max(map(len, text.split("/"))) <= 255:
        return Path(text).expanduser()
    raise refused(argument, value, "a path")


def files_of(argument: str, value: Any) -> list[Path]:
    """Return one or several paths as a list. Raises UsageError if one is not a path."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else [value]
    return [file_path(each, argument) for each in several]


def whole_number(argument: str, value: Any, least: int | None = None) -> int:
    """Return a whole number as an int. Raises UsageError for other values, and for numbers below `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or (least is not None and value < least):
        raise refused(argument, value, "a whole number" + ("" if least is None else f" of at least {least}"))
    return int(value)


def plugin_setting(argument: str, value: Any) -> dict[str, Any]:
    """Convert a plugin given as NAME, NAME:SOURCE or a dict into a dict with `name` and options.

    Raises UsageError if the value has none of these forms.
    """
    if isinstance(value, str):
        name, colon, source = value.partition(":")
        return {"name": name, **({"source": source} if colon else {})}
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return dict(value)
    raise refused(argument, value, "a name, or a dict with `name` and options")


def plugin_settings(argument: str, value: Any) -> list[dict[str, Any]]:
    """Convert one or several plugins, in the forms of `plugin_setting` or as YAML mappings, into a list of dicts.

    Raises UsageError if a plugin has none of these forms.
    """
    several = value if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else [value]
    try:
        read = (
            recipes.parse_setting(each) if isinstance(each, str) and each.lstrip().startswith("{") else each
            for each in several
        )
        return [plugin_setting(argument, each) for each in read]
    except ValueError as error:
        raise errors.UsageError(f"{{{argument}}}: {error}", argument) from None


def stage(verb: str, fields: Mapping[str, Any], names: Mapping[str, str] = {}) -> dict[str, Any]:
    """Validate fields and return a recipe's stage of kind `verb`; fields left at a default of None are omitted.

    fields: values by path, such as `depth` or `tuning.grid`. names: argument names for messages, by path.

    Raises UsageError if values are invalid; the message lists all of them.
    """
    from pydantic import TypeAdapter, ValidationError

    from hardneg.fields import InputFile, PluginKind

    values, problems, wrong = dict[str, Any](stage=verb), list[str](), list[str]()
    for path, value in fields.items():
        model, parts, name = load_plugin("stages", verb), path.split("."), names.get(path, path.rpartition(".")[2])
        for part in parts[:-1]:
            held = model.model_fields[part].annotation
            model = next(each for each in (held, *get_args(held)) if hasattr(each, "model_fields"))
        info: FieldInfo = model.model_fields[parts[-1]]
        if value is None and info.default is None:
            continue
        several = get_origin(info.annotation) is tuple
        annotation: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        try:
            if any(isinstance(mark, InputFile) for mark in info.metadata):
                files = [str(file) for file in files_of(name, value)] if several else str(file_path(value, name))
                values[path] = files
            elif any(isinstance(mark, PluginKind) for mark in info.metadata):
                values[path] = (plugin_settings if several else plugin_setting)(name, value)
            else:
                values[path] = TypeAdapter(annotation).validate_python(_plain(value), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join([f"{{{name}}}", *map(str, first["loc"])])
            problems, wrong = [*problems, f"{location}: {complaint(first)}"], [*wrong, name]
        except errors.UsageError as error:
            problems, wrong = [*problems, error.message], [*wrong, name]
    if problems:
        raise errors.UsageError("\n".join(problems), *wrong)
    return values


def _plain(number: Any) -> Any:
    """Convert numbers of other libraries to Python numbers, also inside mappings and lists."""
    if isinstance(number, Mapping):
        return {name: _plain(value) for name, value in number.items()}
    if isinstance(number, list):
        return tuple(map(_plain, number))
    if isinstance(number, bool) or not isinstance(number, Real):
        return number
    return int(number) if isinstance(number, Integral) else float(number)
