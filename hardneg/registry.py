"""Plugins, found by kind and name through entry points. Listing imports none of them; loading imports one."""

import ast
import contextlib
import dataclasses
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from pathlib import Path
from traceback import walk_tb
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hardneg.records import HardnegError, PluginError, PluginSetting, UsageError, complaint, not_finite, suggestion

SINGULARS = {
    "dataset": "datasets", "writer": "writers", "encoder": "encoders", "miner": "miners", "filter": "filters",
    "loss": "losses", "index": "indexes", "reranker": "rerankers",
    "stage": "stages", "analysis": "analyses",
}  # fmt: skip
KINDS = tuple(SINGULARS.values())
CHOICES = {
    "batches": {
        "clustered": "hardneg.training.batch_orders:Clustered",
        "hardest-together": "hardneg.training.batch_orders:HardestTogether",
        "shuffled": "hardneg.training.batch_orders:Shuffled",
        "topic-balanced": "hardneg.training.batch_orders:TopicBalanced",
    },
    "engine": {"local": "hardneg.stages.base:Local", "ray": "hardneg_ray.engine:Ray"},
    "regularizer": {"flops": "hardneg_sparse.flops:Flops"},
}
"""Options of runs and trainings that are chosen by name and configured like plugins; packages cannot add any."""
_MODELS = ("stages", "analyses")
"""Kinds whose plugins are pydantic models, not dataclasses: their recipe entries are more than flat options."""
_PAPERS = (
    "ablation, across-collections, candidates, costs, denoising, drift, errors, false-negative-recall, "
    "gradients, latency, matrix, operations, overlap-curve, projection, refreshes, scores, sizes, unjudged"
)
_PACKAGES = {
    "hardneg-advice": {"analyses": "hardness, positive-ranks", "apps": "bench, diagnose, recommend"},
    "hardneg-browse": {"apps": "browse"},
    "hardneg-cagra": {"indexes": "cagra"},
    "hardneg-datasets": {
        "apps": "data check, data fetch",
        "datasets": "dpr, ir-datasets, msmarco, msmarco-doc, pyserini, tevatron",
    },
    "hardneg-electra": {"rerankers": "electra"},
    "hardneg-http": {"encoders": "http"},
    "hardneg-hub": {"apps": "push"},
    "hardneg-instructions": {
        "analyses": "p-mrr",
        "datasets": "bright, followir, promptriever",
        "stages": "candidate-lists, judged-negatives",
    },
    "hardneg-judge": {"filters": "chat", "rerankers": "chat, chat-listwise", "stages": "judge", "writers": "chat"},
    "hardneg-multi-vector": {"encoders": "multi-vector", "indexes": "multi-vector, multi-vector-pq"},
    "hardneg-papers": {
        "analyses": _PAPERS,
        "apps": "recipe verify",
        "datasets": "pycode, pynames",
        "stages": "average",
    },
    "hardneg-ray": {"engine": "ray"},
    "hardneg-reader": {"stages": "read, train-reader"},
    "hardneg-seq2seq": {"writers": "seq2seq"},
    "hardneg-sparse": {"encoders": "sparse", "indexes": "impact, sparse", "regularizer": "flops"},
}
OUTSIDE = {
    (kind, name): package
    for package, kinds in _PACKAGES.items()
    for kind, names in kinds.items()
    for name in names.split(", ")
}
"""The package under `plugins` that provides each plugin, by kind and name; the kind of commands is `apps`."""
_points: dict[tuple[object, ...], dict[str, importlib.metadata.EntryPoints]] = {}
"""The entry points in hardneg's groups, by group, cached for one search path."""


@dataclasses.dataclass(frozen=True)
class Plugin:
    """An installed plugin. target: its entry point, `module:NAME`. problem: why it cannot be used, empty if it can."""

    kind: str
    name: str
    target: str
    package: str
    package_version: str
    problem: str = ""


def list_plugins(kind: str | None = None) -> list[Plugin]:
    """Return the installed plugins of a kind, or of all kinds, without importing them; name clashes set `problem`."""
    plugins = []
    for each in KINDS if kind is None else (kind,):
        points = sorted(entry_points(each), key=lambda point: (point.name, _package(point)))
        for name, claims in groupby(points, key=lambda point: point.name):
            claimed = list(claims)
            problem = _claimed_twice(each, name, claimed) if len(claimed) > 1 else ""
            plugins += [Plugin(each, name, point.value, *_package(point), problem) for point in claimed]
    return plugins


def load_plugin(kind: str, name: str) -> type[Any]:
    """Import a plugin and return its class.

    Raises:
        PluginError: the name is unknown (the message has a suggestion) or claimed by two packages, or the import fails.
    """
    points = [point for point in entry_points(kind) if point.name == name]
    if not points:
        if where := not_installed(kind, name):
            raise PluginError(f"{_plugin(kind, name)} is {where}")
        names = plugin_names(kind)
        hint = "; for a folder write beir:FOLDER, or documents:FOLDER" if kind == "datasets" and "/" in name else ""
        hint = hint or suggestion(name, names)
        raise PluginError(f"unknown {_plugin(kind, name)}{hint}; available: {', '.join(names)}")
    if len(points) > 1:
        raise PluginError(_claimed_twice(kind, name, points))
    try:
        loaded = points[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        problem = f"{_plugin(kind, name)} of {_package(points[0])[0]} cannot be imported ({reason})"
        raise PluginError(problem) from error
    form = "pydantic model" if kind in _MODELS else "dataclass"
    fits = hasattr(loaded, "model_fields") if kind in _MODELS else dataclasses.is_dataclass(loaded)
    if not (isinstance(loaded, type) and fits and isinstance(getattr(loaded, "version", None), int)):
        location = f"{_plugin(kind, name)} ({points[0].value})"
        raise PluginError(f"{location} must be a {form} with `version: ClassVar[int]`")
    return loaded


def plugin_names(kind: str) -> list[str]:
    """Return the sorted names of the installed plugins of a kind, without importing them."""
    return sorted({point.name for point in entry_points(kind)})


def configure(kind: str, setting: "PluginSetting") -> Any:
    """Create the plugin of the given kind that a setting names, with the setting's options.

    Raises:
        PluginError: the plugin cannot be loaded, or options are unknown, missing or invalid; the message lists all.
    """
    from pydantic import TypeAdapter, ValidationError

    plugin = load_plugin(kind, setting.name)
    names = [field.name for field in dataclasses.fields(plugin) if field.init]
    known = {option: value for option, value in setting.options.items() if option in names}
    unknown = setting.options.keys() - known.keys()
    problems = [f"{option}: {setting.name} has {no_such_option(option, names)}" for option in sorted(unknown)]
    try:
        instance = TypeAdapter(plugin).validate_python(known)
    except ValidationError as error:
        problems += [_option_problem(kind, setting.name, plugin, item) for item in error.errors()]
    except (ValueError, UsageError) as error:
        problems.append(str(error))
    else:
        problems += [f"{name}: must be a finite number (got {value})" for name, value in not_finite(vars(instance))]
    if problems:
        raise PluginError("; ".join(problems))
    return instance


def _option_problem(kind: str, name: str, plugin: type[Any], item: Mapping[str, Any]) -> str:
    option = ".".join(map(str, item["loc"]))
    if item["type"] not in ("missing", "missing_argument"):
        return f"{option}: {complaint(item)}" if option else complaint(item)
    meaning = next((row["meaning"] for row in plugin_options(plugin) if row["name"] == option), "").rstrip(".")
    form = f"{name}:{option.upper()}" if (kind, option) == ("datasets", "source") else f"{option}=VALUE"
    return f"{option}: missing; set {form}{f', {meaning}' if meaning else ''}"


def needs_of(loss: Any) -> tuple[str, ...]:
    """Return the names of the optional fields of a `ScoreBatch` that a loss requires."""
    return tuple(getattr(loss, "needs", ()))


@contextlib.contextmanager
def plugin_errors(plugins: Iterable[Any]) -> Iterator[None]:
    """Convert exceptions in the block to PluginError if they come from the external package of one of `plugins`."""
    try:
        yield
    except HardnegError:
        raise
    except Exception as error:
        frames = [(frame.f_globals.get("__name__", ""), frame, line) for frame, line in walk_tb(error.__traceback__)]
        for plugin in plugins:
            package = type(plugin).__module__.partition(".")[0]
            own = [(frame, line) for module, frame, line in frames if module.partition(".")[0] == package]
            if own and package != "hardneg":
                location = f"{own[-1][0].f_code.co_filename}:{own[-1][1]}"
                reason = " ".join(f"{location}: {type(error).__name__}: {error}".split())
                name = type(plugin).__name__
                raise PluginError(f"plugin {name} failed ({reason}); set HARDNEG_DEBUG=1 for the traceback") from error
        raise


def no_such_option(option: str, known: Collection[str]) -> str:
    """Return a message for an unknown option, with the most likely option and all options."""
    return f"no such option{suggestion(option, known)}; available: {', '.join(known) or 'none'}"


def kind_of(word: str) -> str:
    """Return the plugin kind for a name in the singular or plural. Raises UsageError for other words."""
    kind = next((each for each in CHOICES if word in (each, f"{each}s")), SINGULARS.get(word, word))
    if kind not in KINDS and kind not in CHOICES:
        known = [*SINGULARS, *CHOICES]
        raise UsageError(f"unknown kind of plugin {word!r}{suggestion(word, known)}; available: {', '.join(known)}")
    return kind


def not_installed(kind: str, name: str) -> str:
    """Return how to install a known plugin whose package is missing; an empty string for other plugins."""
    package = OUTSIDE.get((kind, name))
    if package is None or name in plugin_names(kind):
        return ""
    return f"in package {package}, which is not installed; run {install_command(package)}"


def install_command(package: str) -> str:
    """Return the command that installs a package, and where to run it."""
    return f"pip install ./plugins/{package} in a checkout of hardneg"


def entry_points(kind: str) -> importlib.metadata.EntryPoints:
    """Return the installed entry points of group `hardneg.KIND`, without importing them."""
    if kind in CHOICES:
        found = [own for own in CHOICES[kind].items() if importlib.util.find_spec(own[1].partition(".")[0])]
        return importlib.metadata.EntryPoints(importlib.metadata.EntryPoint(*own, f"hardneg.{kind}") for own in found)
    here = (*sys.path, importlib.metadata.entry_points)  # read once per process, and re-read after sys.path changes
    if here not in _points:
        points = importlib.metadata.entry_points()
        _points.clear()
        _points[here] = {group: points.select(group=group) for group in points.groups if group.startswith("hardneg.")}
    return _points[here].get(f"hardneg.{kind}", importlib.metadata.EntryPoints(()))


def _package(point: importlib.metadata.EntryPoint) -> tuple[str, str]:
    if point.dist:
        return point.dist.name, point.dist.version
    package = OUTSIDE.get((point.group.removeprefix("hardneg."), point.name), "hardneg")
    return package, importlib.metadata.version(package)


def _claimed_twice(kind: str, name: str, points: Iterable[importlib.metadata.EntryPoint]) -> str:
    packages = sorted(_package(point)[0] for point in points)
    return f"{_plugin(kind, name)} is provided by {' and '.join(packages)}; uninstall one of them"


def _plugin(kind: str, name: str) -> str:
    return f"{next((one for one, many in SINGULARS.items() if many == kind), kind)} {name!r}"


def faster(name: str) -> Any:
    """Return the module with faster code that an installed package provides as `name`; None if no package provides it.

    Module `passes` has `arrange(network)`, which speeds up a network in place and changes its vectors only by rounding,
    and `packing(encoder, side, parts)`, which returns a layout of texts without padding, or None. Module `search` has
    `rough_search(device, queries, vectors, dimension, k)`, which returns a search for the candidates of an exact
    search, or None if float32 is as fast. The package `hardneg-fast-cpu` provides both modules.
    """
    return next((point.load() for point in entry_points("faster") if point.name == name), None)


def plugin_summary(target: str) -> str:
    """Return the first sentence of the docstring of `module:NAME`, without importing it; empty if it cannot be read."""
    module, _, attribute = target.partition(":")
    try:
        source = _find_source(module)
        nodes = ast.parse(source.read_text("utf-8")).body if source else []
    except (OSError, SyntaxError, ValueError):  # reported when it is loaded
        return ""
    text = ""
    for node, after in pairwise([*nodes, ast.Pass()]):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            text = ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute and isinstance(after, ast.Expr):
            text = ast.literal_eval(after.value)
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


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
    """Return the `name`, `type`, `default` (empty if required) and `meaning` of each option of a plugin, as texts."""
    rows = []
    if hasattr(plugin, "model_fields"):
        for name, info in plugin.model_fields.items():
            default = "" if info.is_required() else repr(info.get_default(call_default_factory=True))
            rows += [(name, info.annotation, default, info.description)] if name != "stage" else []
    else:
        for field in dataclasses.fields(plugin):
            made = field.default_factory() if callable(field.default_factory) else field.default
            default = "" if made is dataclasses.MISSING else repr(made)
            rows.append((field.name, field.type, default, field.metadata.get("help")))
    meanings = _meanings(plugin, [name for name, *_ in rows])
    return [
        {"name": name, "type": _type(form), "default": default, "meaning": said or meanings.get(name, "")}
        for name, form, default, said in rows
    ]


def plugin_text(plugin: type[Any]) -> str:
    """Return the docstring of a plugin's class without the options."""
    text, *_ = re.split(r"\n(?:Args|Attributes|Options):", inspect.cleandoc(plugin.__doc__ or ""))
    if hasattr(plugin, "model_fields"):
        text, *_ = _said_of(plugin.model_fields).split(text)
    return text.strip()


def _type(annotation: Any) -> str:
    """Return a type as source text, without modules and annotations."""
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
    """Return the descriptions of options in docstrings, bases first, from `Args:` or `NAME: text.` in prose."""
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
