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


def _marks(info: FieldInfo) -> list[Any]:
    """The marks of a field and of what it holds."""
    held = [each for each in get_args(info.annotation) if get_origin(each) is Annotated]
    return [*info.metadata, *(mark for each in held for mark in get_args(each)[1:])]


def _least(info: FieldInfo) -> int | None:
    """The lowest whole number that a field takes."""
    above, at = (
        [limit for mark in _marks(info) if (limit := getattr(mark, name, None)) is not None] for name in ("gt", "ge")
    )
    return int(above[0]) + 1 if above else int(at[0]) if at else None


def with_files(chosen: type[Analysis], args: Mapping[str, Any]) -> tuple[Analysis, Files]:
    """The analysis that was asked for, and the files that it reads.

    Raises:
        UsageError: what was given makes no sense; all mistakes, each with its option.
    """
    from hardneg.api.analyzing import checked, files_of, stages_of

    stages = stages_of(args["run_folder"], open_store(args["store"])) if "stages" in chosen.asks else {}
    fields = {
        name: value
        for name, info in chosen.model_fields.items()
        if (value := _value(chosen, name, info, args)) not in (None, [], ())
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
        checks = [getattr(each, "func", None) for each in _marks(info)]
        metrics = completion.metrics if name == "metric" or known_metric in checks else None
        low = _least(info) if form is int or get_args(form) == (int,) else None
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


def _value(chosen: type[Analysis], name: str, info: FieldInfo, args: Mapping[str, Any]) -> Any:
    """What was given for a field, as the field takes it."""
    mark, annotation, value = _mark(info), info.annotation, args.get(name)
    if _several_words(mark):
        value = split_names(value or [], args[f"more_{name}"] or [])
    if get_origin(annotation) is not dict or not value:
        return str(value) if isinstance(value, Path) else value
    texts, refers = [str(each) for each in value], any(isinstance(each, Reference) for each in info.metadata)
    inner = get_args(annotation)[1]
    inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
    if refers and get_origin(inner) not in (dict, tuple):
        if mark.placed:
            return {str(position): text for position, text in enumerate(texts)}
        if "stages" in chosen.asks:
            return dict(_split(text, text) for text in texts)
        return _labelled(texts)
    prefix = "" if mark.argument else f"{_flag(name, mark)} "
    if get_origin(inner) is dict:
        return _sized(prefix, texts) if refers else _cells(prefix, texts)
    if get_origin(inner) is tuple:
        return _listed(prefix, texts, numbers=_form(get_args(inner)[0]) is float)
    return dict(_both(prefix, text, "NAME=VALUE") for text in texts)


def _split(text: str, default: str) -> tuple[str, str]:
    """LABEL=PATH; a text without the sign, or the path of something that is there, is the value of `default`."""
    label, separator, value = text.partition("=")
    return (label, value) if separator and label and value and not Path(text).exists() else (default, text)


def _labelled(texts: _Texts) -> dict[str, str]:
    """PATH or LABEL=PATH; by default the end of the path that tells it from the others."""
    pairs = [_split(text, "") for text in texts]
    tails = run_labels([Path(path) for label, path in pairs if not label])
    return {label or tails[Path(path)]: path for label, path in pairs}


def _listed(prefix: str, texts: _Texts, numbers: bool) -> dict[str, list[Any]]:
    """NAME=STAGE[,STAGE], or NAME=NUMBER."""
    values: dict[str, list[Any]] = {}
    for text in texts:
        label, value = _both(prefix, text, "NAME=NUMBER" if numbers else "NAME=STAGE or NAME=STAGE,STAGE")
        try:
            values.setdefault(label, []).extend([float(value)] if numbers else value.split(","))
        except ValueError:
            raise UsageError(f"{prefix}{text}: {value!r} is not a number; say {label}=0.5") from None
    return values


def _sized(prefix: str, texts: _Texts) -> dict[str, dict[int, str]]:
    """NUMBER=PATH or LABEL:NUMBER=PATH, such as a size of vectors or a step."""
    values: dict[str, dict[int, str]] = {}
    for text in texts:
        named, _, path = text.partition("=")
        label, _, size = named.rpartition(":")
        if not path or not size.isascii() or not size.isdigit():
            raise UsageError(f"{prefix}{text}: must be NUMBER=PATH or LABEL:NUMBER=PATH, a whole number")
        if int(size) in values.setdefault(label or "run", {}):
            raise UsageError(f"{prefix}{text}: {named} is given twice")
        values[label or "run"][int(size)] = path
    return values


def _cells(prefix: str, texts: _Texts) -> dict[str, dict[str, str]]:
    """ROW:COLUMN=VALUE."""
    values: dict[str, dict[str, str]] = {}
    for text in texts:
        named, value = _both(prefix, text, "ROW:COLUMN=VALUE")
        row, column = _both(prefix, named, "ROW:COLUMN=VALUE", ":")
        values.setdefault(row, {})[column] = value
    return values


def _both(prefix: str, text: str, form: str, sign: str = "=") -> tuple[str, str]:
    label, separator, value = text.partition(sign)
    if not (label and separator and value):
        raise UsageError(f"{prefix}{text}: must be of the form {form}")
    return label, value
