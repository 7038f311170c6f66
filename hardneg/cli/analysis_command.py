"""Commands for analyses, generated from their fields."""

from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from hardneg.analysis.base import Analysis, Option
from hardneg.cli import adaptor, planned_work
from hardneg.cli.console import Bars, print_section, say_json, stdout_console
from hardneg.fields import Reference, known_metric
from hardneg.functions.arguments import WRITTEN, AnalyzeArguments, options_of
from hardneg.functions.given import run_labels
from hardneg.functions.recipes import checked, files_of, stages_of
from hardneg.records import LOCK, UsageError
from hardneg.registry import plugin_errors
from hardneg.report import figure, table
from hardneg.runtime import check_device
from hardneg.store import Target

_KEYWORDS = options_of(AnalyzeArguments)
_FORMS = {"qrels": Path, "queries": Path, "corpus": Path, "withheld": Path, "relevance_level": int, "seed": int}
"""The types of the options that an analysis can request in addition to its fields."""
_PLOT = typer.Option("--plot", metavar="PATH", help="Draw a .png, .svg or .pdf figure.", rich_help_panel=WRITTEN)
_OUTPUTS = (
    adaptor.keyword("as_json", default=adaptor.JSON, annotation=bool),
    adaptor.keyword("plot", default=None, annotation=Annotated[Path | None, _PLOT]),
    adaptor.keyword("overwrite", default=adaptor.OVERWRITE, annotation=bool),
)


def command_of(chosen: type[Analysis]) -> Any:
    """Return the click command that runs an analysis, with options for its fields, other inputs and outputs."""
    of_stages = "stages" in chosen.asks
    fields = {name: _Field(name, info, of_stages) for name, info in chosen.model_fields.items()}

    def called(name: str) -> str:
        return fields[name].flag if name in fields else adaptor.plain_flag(name)

    def run(**args: Any) -> None:
        if args.get("device") is not None:
            check_device(args["device"])
        stages = stages_of(args["run_folder"], planned_work.open_store(args["store"])) if of_stages else {}
        given = {name: each.value(args[name]) for name, each in fields.items() if args.get(name) not in (None, [], ())}
        for name in given:
            if of := fields[name].mark.one_of:
                known = {path: label for label, path in given.get(of, {}).items()}
                given[name] = known.get(given[name], given[name])
        analysis = checked(chosen, given, {name: stage[0] for name, stage in stages.items()}, called)
        files, plot = files_of(analysis, args, stages, Bars()), args["plot"]
        if plot:
            figure.check_forms([plot])
            beside = (files.judged, files.topics, files.corpus, files.hidden)
            reads = [*(path for path in map(Path, files.named.values()) if path.exists()), *filter(None, beside)]
            reads = [path / LOCK if (path / LOCK).is_file() else path for path in reads]  # figures may go there
            planned_work.store_outputs("analyze", [Target(plot)], reads, args["overwrite"]).check()
        with plugin_errors([analysis]):
            numbers = analysis.measure(files)
            if plot:
                with planned_work.store_outputs("analyze", [Target(plot)], [], True).publish():
                    analysis.draw(numbers, [plot])
            if args["as_json"]:
                say_json(numbers)
            else:
                print_section(stdout_console(), table.Section("", analysis.tables(numbers), analysis.explain(numbers)))

    options = [*_asked(chosen), *(each.parameter() for each in fields.values() if each.mark.flag != "-")]
    options += [adaptor.keyword("device", default=adaptor.DEVICE, annotation=str | None)] * ("device" in chosen.asks)
    options += [adaptor.keyword("store", default=adaptor.STORE, annotation=Path | None)] * of_stages
    shaped = adaptor.shaped(run, [*options, *_OUTPUTS], chosen.__doc__ or "", called)
    return adaptor.click_command(chosen.name, shaped)


def _asked(chosen: type[Analysis]) -> Iterator[Parameter]:
    """The options that an analysis requests in addition to its fields."""
    if "stages" in chosen.asks:
        folder = typer.Argument(metavar="RUN_FOLDER", help=_KEYWORDS["run_folder"].help)
        yield adaptor.keyword("run_folder", annotation=Annotated[Path, folder])
    for ask in chosen.asks:
        if (name := ask.rstrip("?")) in _FORMS:
            own, form = _KEYWORDS[name], _FORMS[name]
            said = typer.Option(adaptor.plain_flag(name), help=own.help, min=1 if name == "relevance_level" else None)
            empty = Parameter.empty if own.default is None and ask == name else own.default
            yield adaptor.keyword(name, default=empty, annotation=Annotated[form | None if ask != name else form, said])


class _Field:
    """The option for a field of an analysis. of_stages: whether references are names of stages."""

    def __init__(self, name: str, info: FieldInfo, of_stages: bool) -> None:
        self.name, self.info, self.of_stages = name, info, of_stages
        self.mark = next((mark for mark in info.metadata if isinstance(mark, Option)), Option())
        self.refers = any(isinstance(mark, Reference) for mark in info.metadata)
        self.flag = f"--{self.mark.flag or name.replace('_', '-')}"
        inner = (each for part in get_args(info.annotation) for each in getattr(part, "__metadata__", ()))
        self.marks = [*info.metadata, *inner]
        self.metrics = known_metric in [getattr(each, "func", None) for each in self.marks]

    def parameter(self) -> Parameter:
        """The command-line parameter: an argument if the field is marked as one, else an option."""
        info, mark, form = self.info, self.mark, _form(self.info.annotation)
        required = info.is_required() and not self.of_stages
        if self.refers and not (self.of_stages or mark.placed or (mark.metavar and not mark.argument)):
            form = list[Path] if get_origin(info.annotation) is dict else Path
        usual = "A TREC run, plain or gzipped; may be repeated." if mark.flag == "run" else ""
        text: dict[str, Any] = {"help": info.description or usual, "metavar": mark.metavar or None}
        if mark.argument:
            said: Any = typer.Argument(**text)
        else:
            if self.name == "metric" or self.metrics:
                text["autocompletion"] = adaptor.complete_metrics
            if form in (int, list[int]):
                bounds = (each.gt + 1 if hasattr(each, "gt") else getattr(each, "ge", None) for each in self.marks)
                text["min"] = next((bound for bound in bounds if bound is not None), None)
            said = typer.Option(self.flag, *(f"--{same}" for same in mark.same), **text)
        default = Parameter.empty if required else info.default if get_origin(form) is not list else None
        optional = form if required or default is not None else form | None
        return adaptor.keyword(self.name, default=default, annotation=Annotated[optional, said])

    def value(self, given: Any) -> Any:
        """Return the field's value from the parsed command line. Raises UsageError if a text has the wrong form."""
        if isinstance(given, list) and self.metrics:
            given = planned_work.metric_names(given)
        if get_origin(self.info.annotation) is not dict:
            return str(given) if isinstance(given, Path) else given
        texts, inner = list(map(str, given)), get_args(self.info.annotation)[1]
        inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
        if get_origin(inner) is dict:
            return dict(self._table(texts))
        if not self.refers or get_origin(inner) is tuple:
            return self._named(texts, several=get_origin(inner) is tuple)
        if self.mark.placed:
            return {str(position): text for position, text in enumerate(texts)}
        pairs = []
        for text in texts:  # LABEL=PATH; a path alone has no label
            label, _, path = text.partition("=")
            pairs.append((label, path) if label and path and not Path(text).exists() else ("", text))
        tails = {} if self.of_stages else run_labels([Path(path) for label, path in pairs if not label])
        return {label or tails.get(Path(path), path): path for label, path in pairs}

    def _mistake(self, text: str, problem: str) -> UsageError:
        return UsageError(f"{'' if self.mark.argument else f'{self.flag} '}{text}: {problem}")

    def _named(self, texts: list[str], several: bool) -> dict[str, Any]:
        """Parse NAME=VALUE texts; with `several`, values are separated by commas and names may repeat."""
        values: dict[str, Any] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if not (name and value):
                raise self._mistake(text, f"must be NAME={'STAGE[,STAGE]' if several else 'VALUE'}")
            values[name] = [*values.get(name, ()), *value.split(",")] if several else value
        return values

    def _table(self, texts: list[str]) -> Mapping[str, dict[str, str]]:
        """Parse ROW:COLUMN=VALUE texts or, for files, [LABEL:]NUMBER=PATH; NUMBER is a step or a dimension."""
        values: dict[str, dict[str, str]] = {}
        for text in texts:
            named, _, value = text.partition("=")
            row, _, column = named.rpartition(":")
            if not value or not (column.isascii() and column.isdigit() if self.refers else row and column):
                form = "[LABEL:]NUMBER=PATH, where NUMBER is a whole number" if self.refers else "ROW:COLUMN=VALUE"
                raise self._mistake(text, f"must be {form}")
            if column in values.setdefault(row or "run", {}):
                raise self._mistake(text, f"{named} is given twice")
            values[row or "run"][column] = value
        return values


def _form(annotation: Any) -> Any:
    """Return the command-line type of a field: text, number, choice, or a list of these."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _form(inner[0])
    if origin in (Union, UnionType):
        return _form(next(each for each in inner if each is not NoneType))
    if origin is tuple:
        return list[_form(inner[0])]  # type: ignore[misc]
    if origin is dict:
        return list[str]
    return annotation if origin is Literal or annotation in (int, float, bool, str) else str
