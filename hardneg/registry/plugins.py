"""Plugins by kind and name, found through entry points: listing imports nothing, loading imports one thing."""

import ast
import contextlib
import dataclasses
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from hardneg.records.errors import HardnegError, PluginError, UsageError
from hardneg.records.wording import complaint, not_finite, not_numbers, suggestion

if TYPE_CHECKING:
    from hardneg.records.types import PluginSetting


_KINDS = {
    "dataset": "datasets", "writer": "writers", "encoder": "encoders", "miner": "miners", "filter": "filters",
    "loss": "losses", "regularizer": "regularizers", "index": "indexes", "reranker": "rerankers",
    "stage": "stages", "analysis": "analyses", "engine": "engines",
}  # fmt: skip
KINDS = tuple(_KINDS.values())
_ORDERS = "hardneg.training.batch_orders:"
CHOICES: Mapping[str, Mapping[str, str]] = {
    "batches": {
        "clustered": f"{_ORDERS}Clustered", "hardest-together": f"{_ORDERS}HardestTogether",
        "one-source": f"{_ORDERS}OneSource", "shuffled": f"{_ORDERS}Shuffled",
        "topic-balanced": f"{_ORDERS}TopicBalanced",
    },
}  # fmt: skip
"""Options of a training that are chosen by name, with options of their own, as plugins are; packages add none."""
_MODELS = ("stages", "analyses")
"""Kinds whose plugins are pydantic models, not dataclasses: their recipe entries are more than flat options."""
_PAPERS = (
    "ablation", "across-collections", "candidates", "denoising", "dimensions", "drift", "errors",
    "false-negative-recall", "gradients", "information", "latency", "matrix", "operations", "overlap-curve",
    "projection", "refreshes", "scores", "sizes", "truncation", "unjudged",
)  # fmt: skip
_OUTSIDE = {
    **dict.fromkeys((("analyses", name) for name in _PAPERS), "hardneg-papers"),
    ("analyses", "hardness"): "hardneg-advice",
    ("analyses", "miner-sweep"): "hardneg-advice",
    ("analyses", "p-mrr"): "hardneg-instructions",
    ("analyses", "positive-ranks"): "hardneg-advice",
    ("datasets", "bright"): "hardneg-instructions",
    ("datasets", "dpr"): "hardneg-datasets",
    ("datasets", "followir"): "hardneg-instructions",
    ("datasets", "msmarco"): "hardneg-datasets",
    ("datasets", "msmarco-doc"): "hardneg-datasets",
    ("datasets", "promptriever"): "hardneg-instructions",
    ("datasets", "pycode"): "hardneg-papers",
    ("datasets", "pynames"): "hardneg-papers",
    ("datasets", "pyserini"): "hardneg-datasets",
    ("datasets", "tevatron"): "hardneg-datasets",
    ("encoders", "http"): "hardneg-http",
    ("encoders", "multi-vector"): "hardneg-multi-vector",
    ("encoders", "sparse"): "hardneg-sparse",
    ("engines", "ray"): "hardneg-ray",
    ("filters", "chat"): "hardneg-judge",
    ("indexes", "cagra"): "hardneg-cagra",
    ("indexes", "impact"): "hardneg-sparse",
    ("indexes", "multi-vector"): "hardneg-multi-vector",
    ("indexes", "multi-vector-pq"): "hardneg-multi-vector",
    ("indexes", "multi-vector-two-stage"): "hardneg-multi-vector",
    ("indexes", "sparse"): "hardneg-sparse",
    ("regularizers", "flops"): "hardneg-sparse",
    ("rerankers", "chat"): "hardneg-judge",
    ("rerankers", "chat-listwise"): "hardneg-judge",
    ("rerankers", "electra"): "hardneg-electra",
    ("stages", "candidate-lists"): "hardneg-instructions",
    ("stages", "average"): "hardneg-papers",
    ("stages", "judge"): "hardneg-judge",
    ("stages", "judged-negatives"): "hardneg-instructions",
    ("stages", "read"): "hardneg-reader",
    ("stages", "train-reader"): "hardneg-reader",
    ("writers", "chat"): "hardneg-judge",
    ("writers", "seq2seq"): "hardneg-seq2seq",
}
"""Plugins of the packages in plugins/ of hardneg's sources."""


@dataclasses.dataclass(frozen=True)
class Plugin:
    """One entry point: its package, and the problem if it cannot be used."""

    kind: str
    name: str
    target: str
    package: str
    package_version: str
    problem: str = ""


def list_plugins(kind: str | None = None) -> list[Plugin]:
    """Return all installed plugins, by kind and name, without importing them; a broken one has its problem."""
    kinds = KINDS if kind is None else (_known_kind(kind),)
    plugins = []
    for each in kinds:
        points = sorted(entry_points(each), key=lambda point: (point.name, _package(point)))
        for name, claims in groupby(points, key=lambda point: point.name):
            claimed = list(claims)
            twice = _claimed_twice(each, name, [_package(point)[0] for point in claimed]) if len(claimed) > 1 else ""
            for point in claimed:
                problem = twice or static_problem(point.value)
                plugins.append(Plugin(each, name, point.value, *_package(point), problem))
    return plugins


def load_plugin(kind: str, name: str) -> type[Any]:
    """Return the class of a plugin.

    Raises:
        PluginError: the name is unknown (with a suggestion), claimed by two packages, or its import fails.
    """
    points = [point for point in entry_points(_known_kind(kind)) if point.name == name]
    if not points:
        if where := not_installed(kind, name):
            raise PluginError(f"the {kind} plugin {name!r} is {where}")
        names = plugin_names(kind)
        hint = "; for a folder write beir:FOLDER, or documents:FOLDER" if kind == "datasets" and "/" in name else ""
        hint = hint or suggestion(name, names)
        raise PluginError(f"no {kind} plugin is called {name!r}{hint}; there are: {', '.join(names)}")
    if len(points) > 1:
        raise PluginError(_claimed_twice(kind, name, [_package(point)[0] for point in points]))
    try:
        loaded = points[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(
            f"the {kind} plugin {name!r} of {_package(points[0])[0]} cannot be imported ({reason})"
        ) from error
    form = "pydantic model" if kind in _MODELS else "dataclass"
    fits = hasattr(loaded, "model_fields") if kind in _MODELS else dataclasses.is_dataclass(loaded)
    if not (isinstance(loaded, type) and fits and isinstance(getattr(loaded, "version", None), int)):
        raise PluginError(
            f"the {kind} plugin {name!r} ({points[0].value}) must be a {form} with `version: ClassVar[int]`"
        )
    return loaded


def plugin_names(kind: str) -> list[str]:
    """Return the names of the installed plugins of a kind, sorted; nothing is imported."""
    return sorted({point.name for point in entry_points(_known_kind(kind))})


def configure(kind: str, setting: "PluginSetting") -> Any:
    """Return the plugin of `kind` that a setting names, built with its options.

    Raises:
        PluginError: the plugin cannot be loaded, or options are unknown, missing or of a wrong type; all at once.
    """
    from pydantic import TypeAdapter, ValidationError

    plugin = load_plugin(kind, setting.name)
    names = [field.name for field in dataclasses.fields(plugin) if field.init]
    problems = [
        f"{option}: {setting.name} has {no_such_option(option, names)}"
        for option in setting.options
        if option not in names
    ]
    try:
        known = {option: value for option, value in setting.options.items() if option in names}
        instance = TypeAdapter(plugin).validate_python(known)
    except ValidationError as error:
        problems += [_option_problem(kind, setting.name, plugin, item) for item in error.errors()]
    except (ValueError, UsageError) as error:
        problems.append(str(error))
    else:
        problems += [f"{name}: must be a finite number (got {value})" for name, value in not_finite(vars(instance))]
        problems += not_numbers(known, instance)
    if problems:
        raise PluginError("; ".join(problems))
    return instance


def _option_problem(kind: str, name: str, plugin: type[Any], item: Mapping[str, Any]) -> str:
    option = ".".join(map(str, item["loc"]))
    if item["type"] not in ("missing", "missing_argument"):
        return f"{option}: {complaint(item)}" if option else complaint(item)
    meaning = next((row["meaning"] for row in plugin_options(plugin) if row["name"] == option), "").rstrip(".")
    form = f"{name}:{option.upper()}" if (kind, option) == ("datasets", "source") else f"{option}=VALUE"
    return f"{option}: missing: give {form}{f', {meaning}' if meaning else ''}"


def needs_of(loss: Any) -> tuple[str, ...]:
    """Return the optional parts of a `ScoreBatch` that a loss requires."""
    return tuple(getattr(loss, "needs", ()))


@contextlib.contextmanager
def plugin_errors(plugins: Iterable[Any]) -> Iterator[None]:
    """Raise PluginError where one of these plugins, of another package than hardneg, fails in its own code."""
    try:
        yield
    except HardnegError:
        raise
    except Exception as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        for plugin in plugins:
            package = _root(type(plugin).__module__)
            own = [(frame, line) for frame, line in frames if _root(frame.f_globals.get("__name__", "")) == package]
            if own and package != "hardneg":
                location = f"{own[-1][0].f_code.co_filename}:{own[-1][1]}"
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                name = type(plugin).__name__
                raise PluginError(
                    f"the plugin {name} failed ({location}: {reason}); HARDNEG_DEBUG=1 shows more"
                ) from error
        raise


def _root(module: str) -> str:
    return module.partition(".")[0]


def no_such_option(option: str, known: Collection[str]) -> str:
    """Return a message for an unknown option: the likely one, and all options."""
    return f"no such option{suggestion(option, known)}; it has: {', '.join(known) or 'none'}"


def singulars() -> dict[str, str]:
    """Kinds of plugins by their names in the singular."""
    return dict(_KINDS)


def kind_of(word: str) -> str:
    """The kind that a word names, in the singular or the plural. Raises UsageError: it names none."""
    known = singulars()
    kind = known.get(word, word)
    if kind not in KINDS and kind not in CHOICES:
        raise UsageError(
            f"no kind of plugin is called {word!r}{suggestion(word, known)}; there are: {', '.join(known)}"
        )
    return kind


def _known_kind(kind: str) -> str:
    if kind not in KINDS and kind not in CHOICES:
        raise PluginError(
            f"no kind of plugin is called {kind!r}{suggestion(kind, KINDS)}; there are: {', '.join(KINDS)}"
        )
    return kind


def not_installed(kind: str, name: str) -> str:
    """Return how to install a known plugin whose package is missing; empty for others."""
    package = _OUTSIDE.get((kind, name))
    if package is None or name in plugin_names(kind):
        return ""
    return f"in package {package}, which is not installed: {install_command(package)}"


def install_command(package: str) -> str:
    """Return how a package of hardneg's sources is installed."""
    return f"pip install ./plugins/{package}, from a checkout of hardneg"


def entry_points(kind: str) -> importlib.metadata.EntryPoints:
    """Return the installed entry points of a group `hardneg.KIND`; nothing is imported."""
    if kind in CHOICES:
        points = (importlib.metadata.EntryPoint(*item, f"hardneg.{kind}") for item in CHOICES[kind].items())
        return importlib.metadata.EntryPoints(points)
    groups = _entry_points_by_group(tuple(sys.path), importlib.metadata.entry_points)
    return groups.get(f"hardneg.{kind}", importlib.metadata.EntryPoints(()))


@functools.lru_cache(1)
def _entry_points_by_group(
    path: tuple[str, ...], read: Callable[[], importlib.metadata.EntryPoints]
) -> dict[str, importlib.metadata.EntryPoints]:
    """Return hardneg's entry points, read once per process, and again after sys.path changed."""
    points = read()
    return {group: points.select(group=group) for group in points.groups if group.startswith("hardneg.")}


def _package(point: importlib.metadata.EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else ("hardneg", "")


def _claimed_twice(kind: str, name: str, packages: list[str]) -> str:
    return f"the {kind} name {name!r} is claimed by {' and '.join(sorted(packages))}; uninstall one of them"


def static_problem(target: str) -> str:
    """Return why `module:Class` cannot be loaded, from the source alone; empty if it can."""
    module, _, attribute = target.partition(":")
    if not attribute:
        return f"its target {target!r} is not of the form module:Class"
    try:
        source = _find_source(module)
        if source is None:
            return f"there is no module {module}"
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except SyntaxError as error:
        return f"{module} line {error.lineno}: {error.msg}"
    except (OSError, UnicodeDecodeError, ValueError) as error:
        return f"{module} cannot be read: {error}"
    nodes = list(ast.walk(tree))
    bound = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    bound |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return "" if attribute in bound else f"{module} has no {attribute}"


def plugin_summary(target: str) -> str:
    """Return the first sentence of the docstring of a class or function, from its source; nothing is imported."""
    module, _, attribute = target.partition(":")
    source = _find_source(module)
    if source is None:
        return ""
    nodes = ast.parse(source.read_text("utf-8")).body
    named = (node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute)
    documented = (ast.get_docstring(node) or "" for node in named)
    return " ".join(next(documented, "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def _find_source(module: str) -> Path | None:
    search: list[str] | None = None
    spec: importlib.machinery.ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        spec = importlib.util.find_spec(name) if depth == 0 else importlib.machinery.PathFinder.find_spec(name, search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec and spec.origin else None


def plugin_options(plugin: type[Any]) -> list[Mapping[str, str]]:
    """Return a mapping for each option: `name`, `type`, `default` (empty: required), `meaning` from the docstring."""
    rows = list(_rows(plugin))
    meanings = _meanings(plugin, [row["name"] for row in rows])
    return [{**row, "meaning": row.get("meaning") or meanings.get(row["name"], "")} for row in rows]


def plugin_text(plugin: type[Any]) -> str:
    """Return the docstring of a plugin's class without its options."""
    text, *_ = re.split(r"\n(?:Args|Attributes|Options):", inspect.cleandoc(plugin.__doc__ or ""))
    if hasattr(plugin, "model_fields"):
        text, *_ = _said_of(plugin.model_fields).split(text)
    return text.strip()


def _rows(plugin: type[Any]) -> Iterator[dict[str, str]]:
    """Return the fields of a dataclass, or of a model, whose verb is no option."""
    if hasattr(plugin, "model_fields"):
        for name, info in plugin.model_fields.items():
            if name != "stage":
                default = "" if info.is_required() else repr(info.get_default(call_default_factory=True))
                meaning = info.description or ""
                yield {"name": name, "type": _type(info.annotation), "default": default, "meaning": meaning}
        return
    for field in dataclasses.fields(plugin):
        default = "" if field.default is dataclasses.MISSING else repr(field.default)
        if field.default_factory is not dataclasses.MISSING:
            default = repr(field.default_factory())
        meaning = field.metadata.get("help", "")
        yield {"name": field.name, "type": _type(field.type), "default": default, "meaning": meaning}


def _type(annotation: Any) -> str:
    """Return a type as source text, without modules and marks."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_type, inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join('...' if item is ... else _type(item) for item in inner)}]"
    return annotation if isinstance(annotation, str) else "None" if annotation is NoneType else annotation.__name__


def _meanings(plugin: type[Any], names: Iterable[str]) -> dict[str, str]:
    """Return the meanings of options in docstrings, bases first: from an `Args:` section, or `NAME: text.` in prose."""
    from docstring_parser import google

    meanings: dict[str, str] = {}
    for base in reversed(plugin.__mro__):
        written = base.__dict__.get("__doc__") or ""
        listed = {one.arg_name: " ".join((one.description or "").split()) for one in google.parse(written).params}
        if listed or not hasattr(plugin, "model_fields"):
            meanings |= listed
            continue
        _, *rest = _said_of(names).split(" ".join(written.split()))
        meanings |= {name: meaning.strip() for name, meaning in zip(rest[::2], rest[1::2], strict=True)}
    return meanings


def _said_of(names: Iterable[str]) -> re.Pattern[str]:
    """Match `NAME: ` of a field in prose."""
    return re.compile(rf"(?:^|(?<=[.\s]))({'|'.join(map(re.escape, names)) or '(?!)'}): ")
