"""The options of an analysis's command, made from its fields, and its fields from what was given for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import Files
from hardneg.api.arguments import AnalyzeArguments, options_of
from hardneg.api.run_argument import run_labels
from hardneg.cli import completion
from hardneg.cli.console import Bars, stderr_console
from hardneg.cli.evaluate import split_names
from hardneg.cli.options import DEVICE, STORE, keyword, open_store, plain_flag
from hardneg.fields import Reference, known_metric
from hardneg.records.errors import UsageError

_RUN = "A TREC run, plain or gzip; give --run for each."
_KEYWORDS = options_of(AnalyzeArguments)
_FORMS = {"qrels": Path, "queries": Path, "corpus": Path, "withheld": Path, "relevance_level": int, "seed": int}
"""What a command takes beside the fields, where the analysis asks for it."""

_Texts = Sequence[str]


def parameters(chosen: type[Analysis]) -> Iterator[Parameter]:
    """Those of the command of an analysis."""
    if "stages" in chosen.asks:
        folder = typer.Argument(metavar="RUN_FOLDER", help=_KEYWORDS["run_folder"].help)
        yield keyword("run_folder", annotation=Annotated[Path, folder])
    for ask in chosen.asks:
        name = ask.rstrip("?")
        if name in _FORMS:
            own, form = _KEYWORDS[name], _FORMS[name]
            said = typer.Option(plain_flag(name), help=own.help, min=1 if name == "relevance_level" else None)
            empty = Parameter.empty if own.default is None and ask == name else own.default
            yield keyword(name, default=empty, annotation=Annotated[form | None if ask != name else form, said])
    for name, info in chosen.model_fields.items():
        yield from _of_field(chosen, name, info)
    if "device" in chosen.asks:
        yield keyword("device", default=DEVICE, annotation=str | None)
    if "stages" in chosen.asks:
        yield keyword("store", default=STORE, annotation=Path | None)


def _all_marks(info: FieldInfo) -> Iterator[Any]:
    """The marks of a field and of what it holds."""
    yield from info.metadata
    for inner in get_args(info.annotation):
        if get_origin(inner) is Annotated:
            yield from get_args(inner)[1:]


def _least(marks: Sequence[Any]) -> int | None:
    """The lowest whole number that the marks of a field allow."""
    for mark in marks:
        if getattr(mark, "gt", None) is not None:
            return int(mark.gt) + 1
        if getattr(mark, "ge", None) is not None:
            return int(mark.ge)
    return None


def with_files(chosen: type[Analysis], args: Mapping[str, Any]) -> tuple[Analysis, Files]:
    """The analysis that was asked for, and the files that it reads.

    Raises:
        UsageError: what was given makes no sense; all mistakes, each with its option.
    """
    from hardneg.api.analyzing import checked, files_of, stages_of

    stages = stages_of(args["run_folder"], open_store(args["store"])) if "stages" in chosen.asks else {}
    fields = {
        name: _value(chosen, name, info, value)
        for name, info in chosen.model_fields.items()
        if (value := _texts(name, info, args)) not in (None, [], ())
    }
    for name, info in chosen.model_fields.items():
        if (of := _mark(info).one_of) and name in fields:
            known = {path: label for label, path in fields.get(of, {}).items()}
            fields[name] = known.get(fields[name], fields[name])
    analysis = checked(chosen, fields, {name: stage[0] for name, stage in stages.items()}, flag_of(chosen))
    return analysis, files_of(analysis, args, stages, Bars(stderr_console()))


def read_files(files: Files) -> Iterator[Path]:
    """All files and folders that a command reads."""
    yield from (Path(name) for name in files.named.values() if Path(name).exists())
    yield from (path for path in (files.judged, files.topics, files.corpus, files.hidden) if path)


def _mark(info: FieldInfo) -> Option:
    return next((mark for mark in info.metadata if isinstance(mark, Option)), Option())


def _flag(name: str, mark: Option) -> str:
    return f"--{mark.flag or name.replace('_', '-')}"


def flag_of(chosen: type[Analysis]) -> Callable[[str], str]:
    """What the command of an analysis calls its arguments."""
    flags = {name: _flag(name, _mark(info)) for name, info in chosen.model_fields.items()}
    return lambda name: flags.get(name) or plain_flag(name)


def _several_words(mark: Option) -> bool:
    """Whether an option takes several words after its name, which are arguments to the parser."""
    return mark.metavar.endswith("...") and not mark.argument


def _of_field(chosen: type[Analysis], name: str, info: FieldInfo) -> Iterator[Parameter]:
    mark, form = _mark(info), _paths(chosen, info) or _form(info.annotation)
    if mark.flag == "-":
        return
    text: dict[str, Any] = {
        "help": info.description or (_RUN if mark.flag == "run" else ""),
        "metavar": mark.metavar or None,
    }
    required = info.is_required() and "stages" not in chosen.asks
    if mark.argument:
        said: Any = typer.Argument(**text)
    else:
        checks = [getattr(each, "func", None) for each in _all_marks(info)]
        metrics = completion.metrics if name == "metric" or known_metric in checks else None
        low = _least(list(_all_marks(info))) if form is int or get_args(form) == (int,) else None
        said = typer.Option(
            _flag(name, mark), *(f"--{same}" for same in mark.same), **text, min=low, autocompletion=metrics
        )
    default = Parameter.empty if required else info.default if get_origin(form) is not list else None
    optional = form if required or default is not None else form | None
    yield keyword(name, default=default, annotation=Annotated[optional, said])
    if _several_words(mark):
        more = typer.Argument(hidden=True, metavar="NAME", autocompletion=completion.metrics)
        yield keyword(f"more_{name}", default=None, annotation=Annotated[list[str] | None, more])


def _form(annotation: Any) -> Any:
    """What the parser takes for a field: a text, a number, a choice, or a list of such."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _form(inner[0])
    if origin in (Union, UnionType):
        return _form(next(each for each in inner if each is not NoneType))
    if origin is dict:
        return list[str]
    if origin is tuple:
        return list[_form(inner[0])]  # type: ignore[misc]
    return annotation if origin is Literal or annotation in (int, float, bool, str) else str


def _paths(chosen: type[Analysis], info: FieldInfo) -> Any:
    """What the parser takes for files; None for a field that names none, or more than files."""
    mark = _mark(info)
    files = any(isinstance(each, Reference) for each in info.metadata) and "stages" not in chosen.asks
    if not files or mark.placed or (mark.metavar and not mark.argument):
        return None
    return list[Path] if get_origin(info.annotation) is dict else Path


def _texts(name: str, info: FieldInfo, args: Mapping[str, Any]) -> Any:
    if _several_words(_mark(info)):
        return split_names(args[name] or [], args[f"more_{name}"] or [])
    return args.get(name)


def _value(chosen: type[Analysis], name: str, info: FieldInfo, value: Any) -> Any:
    mark, annotation = _mark(info), info.annotation
    if get_origin(annotation) is not dict:
        return str(value) if isinstance(value, Path) else value
    value, refers = [str(each) for each in value], any(isinstance(each, Reference) for each in info.metadata)
    inner, prefix = get_args(annotation)[1], "" if mark.argument else f"{_flag(name, mark)} "
    inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
    if get_origin(inner) is dict:
        return _tables(prefix, value, refers)
    if refers and get_origin(inner) is not tuple:
        if mark.placed:
            return {str(position): text for position, text in enumerate(value)}
        return dict(_split(text, "=", text) for text in value) if "stages" in chosen.asks else _labelled(value)
    return _named(prefix, value, inner)


def _split(text: str, sign: str, default: str) -> tuple[str, str]:
    """What stands before the first sign, and after it; a text without the sign is the value of `default`."""
    label, separator, value = text.partition(sign)
    return (label, value) if separator and label and value and not Path(text).exists() else (default, text)


def _labelled(texts: _Texts) -> dict[str, str]:
    """PATH or LABEL=PATH; by default the end of the path that tells it from the others."""
    pairs = [_split(text, "=", "") for text in texts]
    tails = run_labels([Path(path) for label, path in pairs if not label])
    return {label or tails[Path(path)]: path for label, path in pairs}


def _named(prefix: str, texts: _Texts, inner: Any) -> dict[str, Any]:
    """NAME=VALUE; where several belong to a name, it may come again, and words stand with commas between them."""
    several, values = get_origin(inner) is tuple, dict[str, Any]()
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise UsageError(f"{prefix}{text}: must be of the form NAME={'STAGE[,STAGE]' if several else 'VALUE'}")
        values[name] = [*values.get(name, ()), *value.split(",")] if several else value
    return values


def _tables(prefix: str, texts: _Texts, refers: bool) -> dict[str, dict[str, str]]:
    """ROW:COLUMN=VALUE; of files [LABEL:]NUMBER=PATH, the number that of a step or a size of vectors."""
    values: dict[str, dict[str, str]] = {}
    for text in texts:
        named, _, value = text.partition("=")
        row, _, column = named.rpartition(":")
        if not value or not (column.isascii() and column.isdigit() if refers else row and column):
            form = "NUMBER=PATH or LABEL:NUMBER=PATH, a whole number" if refers else "ROW:COLUMN=VALUE"
            raise UsageError(f"{prefix}{text}: must be {form}")
        if column in values.setdefault(row or "run", {}):
            raise UsageError(f"{prefix}{text}: {named} is given twice")
        values[row or "run"][column] = value
    return values
