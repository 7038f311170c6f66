"""The command of an analysis, made from its fields, and its fields from what was given for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import Files
from hardneg.cli import completion, options
from hardneg.cli.adaptor import click_command, shaped
from hardneg.cli.console import bars, print_section, say_json, stdout_console
from hardneg.cli.evaluate import metric_names
from hardneg.cli.planned_work import store_outputs
from hardneg.fields import Reference, known_metric
from hardneg.functions.analyzing import checked, files_of, stages_of
from hardneg.functions.arguments import AnalyzeArguments, options_of
from hardneg.functions.run_argument import run_labels
from hardneg.records import LOCK, UsageError
from hardneg.registry import plugin_errors
from hardneg.report.figure import check_forms
from hardneg.report.table import Section
from hardneg.store import Target

_RUN = "A TREC run, plain or gzip; give --run for each."
_KEYWORDS = options_of(AnalyzeArguments)
_FORMS = {"qrels": Path, "queries": Path, "corpus": Path, "withheld": Path, "relevance_level": int, "seed": int}
"""What a command takes beside the fields, where the analysis asks for it."""
_DRAWN = "Draw a figure: .png, .svg or .pdf."
_PLOT = typer.Option("--plot", metavar="PATH", help=_DRAWN, rich_help_panel=options.WRITTEN)


def command_of(chosen: type[Analysis]) -> Any:
    """The command of an analysis."""
    flags = {name: _flag(name, info) for name, info in chosen.model_fields.items()}

    def called(name: str) -> str:
        return flags.get(name) or options.plain_flag(name)

    def run(**args: Any) -> None:
        analysis, files = _with_files(chosen, args, called)
        plot: Path | None = args["plot"]
        if plot:
            check_forms([plot])
            reads = [path / LOCK if (path / LOCK).is_file() else path for path in _read(files)]
            store_outputs("analyze", [Target(plot)], reads, args["overwrite"]).check()  # a run folder may hold figures
        with plugin_errors([analysis]):
            numbers = analysis.measure(files)
            if plot:
                with store_outputs("analyze", [Target(plot)], [], True).laid_out():
                    analysis.draw(numbers, [plot])
            if args["as_json"]:
                say_json(numbers)
            else:
                print_section(stdout_console(), Section("", analysis.tables(numbers), analysis.explain(numbers)))

    outputs = [
        options.keyword("as_json", default=options.JSON, annotation=bool),
        options.keyword("plot", default=None, annotation=Annotated[Path | None, _PLOT]),
        options.keyword("overwrite", default=options.OVERWRITE, annotation=bool),
    ]
    return click_command(chosen.name, shaped(run, [*_parameters(chosen), *outputs], chosen.__doc__ or "", called))


def _parameters(chosen: type[Analysis]) -> Iterator[Parameter]:
    if "stages" in chosen.asks:
        folder = typer.Argument(metavar="RUN_FOLDER", help=_KEYWORDS["run_folder"].help)
        yield options.keyword("run_folder", annotation=Annotated[Path, folder])
    for ask in chosen.asks:
        name = ask.rstrip("?")
        if name in _FORMS:
            own, form = _KEYWORDS[name], _FORMS[name]
            said = typer.Option(options.plain_flag(name), help=own.help, min=1 if name == "relevance_level" else None)
            empty = Parameter.empty if own.default is None and ask == name else own.default
            yield options.keyword(name, default=empty, annotation=Annotated[form | None if ask != name else form, said])
    for name, info in chosen.model_fields.items():
        if _mark(info).flag != "-":
            yield _of_field(name, info, "stages" in chosen.asks)
    if "device" in chosen.asks:
        yield options.keyword("device", default=options.DEVICE, annotation=str | None)
    if "stages" in chosen.asks:
        yield options.keyword("store", default=options.STORE, annotation=Path | None)


def _of_field(name: str, info: FieldInfo, of_stages: bool) -> Parameter:
    """The option or argument of a field. of_stages: references are names of stages."""
    mark, form, required = _mark(info), _form(info.annotation), info.is_required() and not of_stages
    if _refers(info) and not (of_stages or mark.placed or (mark.metavar and not mark.argument)):
        form = list[Path] if get_origin(info.annotation) is dict else Path
    text: dict[str, Any] = {"help": info.description or (_RUN if mark.flag == "run" else "")}
    text["metavar"] = mark.metavar or None
    if mark.argument:
        said: Any = typer.Argument(**text)
    else:
        if name == "metric" or _metrics(info):
            text["autocompletion"] = completion.metrics
        if form in (int, list[int]):
            bounds = [each.gt + 1 if hasattr(each, "gt") else getattr(each, "ge", None) for each in _marks(info)]
            text["min"] = next((bound for bound in bounds if bound is not None), None)
        said = typer.Option(_flag(name, info), *(f"--{same}" for same in mark.same), **text)
    default = Parameter.empty if required else info.default if get_origin(form) is not list else None
    optional = form if required or default is not None else form | None
    return options.keyword(name, default=default, annotation=Annotated[optional, said])


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


def _mark(info: FieldInfo) -> Option:
    return next((mark for mark in info.metadata if isinstance(mark, Option)), Option())


def _refers(info: FieldInfo) -> bool:
    return any(isinstance(mark, Reference) for mark in info.metadata)


def _flag(name: str, info: FieldInfo) -> str:
    return f"--{_mark(info).flag or name.replace('_', '-')}"


def _marks(info: FieldInfo) -> list[Any]:
    """The marks of a field and of what it holds."""
    return [*info.metadata, *(each for part in get_args(info.annotation) for each in getattr(part, "__metadata__", ()))]


def _metrics(info: FieldInfo) -> bool:
    return known_metric in [getattr(each, "func", None) for each in _marks(info)]


def _read(files: Files) -> Iterator[Path]:
    """All files and folders that a command reads."""
    yield from (Path(name) for name in files.named.values() if Path(name).exists())
    yield from (path for path in (files.judged, files.topics, files.corpus, files.hidden) if path)


def _with_files(
    chosen: type[Analysis], args: Mapping[str, Any], called: Callable[[str], str]
) -> tuple[Analysis, Files]:
    """The analysis that was asked for, and the files that it reads. Raises UsageError with all mistakes."""
    of_stages, fields = "stages" in chosen.asks, dict[str, Any]()
    stages = stages_of(args["run_folder"], options.open_store(args["store"])) if of_stages else {}
    for name, info in chosen.model_fields.items():
        given = args.get(name)
        if isinstance(given, list) and _metrics(info):
            given = metric_names(given)
        if given not in (None, [], ()):
            fields[name] = _value(name, info, given, of_stages)
    for name, info in chosen.model_fields.items():
        if (of := _mark(info).one_of) and name in fields:
            known = {path: label for label, path in fields.get(of, {}).items()}
            fields[name] = known.get(fields[name], fields[name])
    analysis = checked(chosen, fields, {name: stage[0] for name, stage in stages.items()}, called)
    return analysis, files_of(analysis, args, stages, bars())


def _value(name: str, info: FieldInfo, given: Any, of_stages: bool) -> Any:
    """What was given for a field, as the field takes it."""
    mark, refers = _mark(info), _refers(info)
    if get_origin(info.annotation) is not dict:
        return str(given) if isinstance(given, Path) else given
    texts, prefix = list(map(str, given)), "" if mark.argument else f"{_flag(name, info)} "
    inner = get_args(info.annotation)[1]
    inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
    if get_origin(inner) is dict:
        return _tables(prefix, texts, refers)
    if not refers or get_origin(inner) is tuple:
        return _named(prefix, texts, several=get_origin(inner) is tuple)
    if mark.placed:
        return {str(position): text for position, text in enumerate(texts)}
    pairs = [_labelled(text) for text in texts]
    if of_stages:
        return {label or path: path for label, path in pairs}
    tails = run_labels([Path(path) for label, path in pairs if not label])
    return {label or tails[Path(path)]: path for label, path in pairs}


def _labelled(text: str) -> tuple[str, str]:
    """LABEL=PATH; a path alone has no label."""
    label, _, value = text.partition("=")
    return (label, value) if label and value and not Path(text).exists() else ("", text)


def _named(prefix: str, texts: Sequence[str], several: bool) -> dict[str, Any]:
    """NAME=VALUE; where several belong to a name, it may come again, and words stand with commas between them."""
    values: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise UsageError(f"{prefix}{text}: must be of the form NAME={'STAGE[,STAGE]' if several else 'VALUE'}")
        values[name] = [*values.get(name, ()), *value.split(",")] if several else value
    return values


def _tables(prefix: str, texts: Sequence[str], refers: bool) -> dict[str, dict[str, str]]:
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
