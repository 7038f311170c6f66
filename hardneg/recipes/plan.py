"""Plans: the steps of a recipe in order, each with a key derived from everything that may change its result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from hardneg.fields import InputFile, PluginKind, marked
from hardneg.protocols import LOCATION_OPTIONS, ReadsContent, TrainableReranker
from hardneg.recipes import Recipe, in_order, maker
from hardneg.records import DATASET, START, ArtifactError, DataError, HardnegError, ModelError, UsageError, suggestion
from hardneg.registry import plugin_errors
from hardneg.stages import StageSpec
from hardneg.store import Artifact, Content, Store, digest, file_digest, plugin_identity

SCHEME = 1


@dataclass(frozen=True)
class Step:
    """One stage of a recipe, with its identity.

    key: the digest of `origin`. origin: everything that may change the result: stage, versions, options, plugins, input
    keys. inputs: referenced steps by path in the spec, plus `dataset` and the query encoders. plugins: configured
    plugins by field. contents: content outside the store that the key depends on, or the error if it is missing; only
    steps with a key from a lock file may have errors.
    """

    name: str
    spec: StageSpec
    key: str
    origin: Mapping[str, Any]
    inputs: Mapping[str, str]
    plugins: Mapping[str, Any]
    contents: Sequence[Content | HardnegError] = ()

    def check_contents(self) -> None:
        """Raise a HardnegError if a file, model or dataset is missing or has changed since the key was computed."""
        for content in self.contents:
            if isinstance(content, HardnegError):
                raise content
            content.check()

    @property
    def verb(self) -> str:
        """The stage's verb, such as `mine`: the value of `stage` in the recipe."""
        return self.spec.stage


@dataclass(frozen=True)
class Plan:
    """The steps of a recipe, each after the steps that it depends on. start: the key of the recipe's own model."""

    recipe: Recipe
    start: str
    steps: Mapping[str, Step]

    @property
    def keys(self) -> dict[str, str]:
        """The key of each step, by step name."""
        return {name: step.key for name, step in self.steps.items()}

    def named(self, name: str) -> list[str]:
        """Return the names of a step's copies for seeds, or `[name]` without copies. Raises UsageError if unknown."""
        if name in self.recipe.copies:
            return list(self.recipe.copies[name].values())
        if name not in self.steps:
            known = [*self.recipe.copies, *self.steps]
            raise UsageError(f"no step {name!r}{suggestion(name, known)}; available: {', '.join(known)}")
        return [name]

    def until(self, name: str | None) -> list[Step]:
        """Return `name` and all steps that it depends on, or all for None. Raises UsageError for an unknown name."""
        if name is None:
            return list(self.steps.values())
        needed = set().union(*(_ancestors(self.steps, each) for each in self.named(name)))
        return [step for step in self.steps.values() if step.name in needed]

    def dependents(self, name: str) -> list[Step]:
        """Return the step `name` and all steps that depend on it. Raises UsageError for an unknown name."""
        named = set(self.named(name))
        return [step for step in self.steps.values() if named & _ancestors(self.steps, step.name)]


def make_plan(recipe: Recipe, problems: list[HardnegError] | None = None) -> Plan:
    """Plan the steps of a recipe. To compute keys, this reads the start model and the source of the dataset.

    Raises HardnegError if the model, the dataset or a file is missing. If `problems` is given, the error is appended to
    it instead, and the plan can be shown but not run.
    """
    used = any(target == START for spec in recipe.stages.values() for _, target, _ in spec.references())
    of_start = _Sources("", recipe.locked.get(START), problems, (), [])
    content = of_start.digest(partial(_model_digest, recipe)) if used else "not used"
    start = of_start.key({"scheme": SCHEME, "model": content})
    steps: dict[str, Step] = {}
    for name in in_order(recipe.stages):
        sources = _Sources(start, recipe.locked.get(name), problems, of_start.read, [])
        steps[name] = _step(recipe, name, steps, sources)
    return Plan(recipe, start, steps)


def _model_digest(recipe: Recipe) -> str:
    try:
        return recipe.models.of(recipe.model, fetched=True).digest
    except ModelError:
        name = recipe.model.name
        if Path(name).is_dir() or (command := maker(name)) is None:
            raise
        advice = f"create it with `{command}`, or set model.name=FOLDER"
        raise ModelError(f"model {name}: does not exist; {advice}") from None


def inputs_of(recipe: Recipe) -> list[Path]:
    """Return the paths that a recipe may read: its file, datasets, models and input files; some may be mere names."""
    inputs = [str(recipe.source), recipe.model.name]
    for plugin in recipe.plugins.values():
        values = {field.name: getattr(plugin, field.name) for field in fields(plugin)}
        inputs += [str(value) for name, value in values.items() if name == "source" or isinstance(value, Path)]
    for name, spec in recipe.stages.items():
        network = spec.network(recipe.view(name))
        inputs += [network.name] if network else []
        inputs += [file for _, _, file in marked(spec, InputFile)]
    return [Path(name).expanduser() for name in dict.fromkeys(inputs) if name]


@dataclass(frozen=True)
class _Sources:
    """The contents that a step's key depends on; `of_start` is the start model's. locked: the key if one is missing."""

    start: str
    locked: str | None
    problems: list[HardnegError] | None
    of_start: Sequence[Content | HardnegError]
    read: list[Content | HardnegError]

    def key(self, origin: Any) -> str:
        missing = any(isinstance(each, HardnegError) for each in self.read)
        return self.locked if self.locked and missing else digest(origin)

    def digest(self, find: Callable[[], str]) -> str:
        failure: HardnegError
        try:
            content = Content.of(find)
            self.read.append(content)
            return content.digest
        except HardnegError as error:
            failure = error
        except OSError as error:
            failure = DataError(f"{error.filename}: cannot be read ({error.strerror})")
        if self.locked:
            self.read.append(failure)
        elif self.problems is None:
            raise failure
        else:
            self.problems.append(failure)
        return f"unknown: {failure}"


def cached(step: Step, store: Store) -> Artifact | None:
    """Return the finished artifact of a step; None if it is missing or cannot be read."""
    try:
        return store.find(step.key)
    except ArtifactError:
        return None


def explain(step: Step, store: Store) -> list[str]:
    """Explain why a step would run: the differences from the most similar artifact of the stage, one line each."""
    if cached(step, store):
        return [f"{step.name}: in the store as {step.key}, with the same inputs and options"]
    wanted, others = dict(flat(step.origin)), dict[str, dict[str, Any]]()
    for item in store.artifacts():
        if isinstance(item, Artifact) and item.origin["stage"] == step.verb:
            others[item.key] = dict(flat({name: value for name, value in item.origin.items() if name != "name"}))
    lines = [f"{step.name}: not in the store ({step.key})"]
    if not others:
        return [*lines, f"the store has no artifact of stage {step.verb} to compare with"]
    same = {key: sum(wanted[path] == there.get(path) for path in wanted) for key, there in others.items()}
    nearest = max(others, key=lambda key: (same[key], -len(others[key])))
    there = others[nearest]
    lines.append(f"the most similar artifact of stage {step.verb} is {nearest}; differences:")
    for path in sorted(wanted.keys() | there.keys()):
        if wanted.get(path) != there.get(path):
            lines.append(f"  {path}: was {there.get(path, 'absent')!r}, is now {wanted.get(path, 'absent')!r}")
    return lines


def _step(recipe: Recipe, name: str, steps: Mapping[str, Step], sources: _Sources) -> Step:
    spec, view = recipe.stages[name], recipe.view(name)
    identity = spec.identity()
    inputs = {path: target for path, target, _ in spec.references()}
    if spec.needs_dataset:
        inputs.setdefault(DATASET, DATASET)
    inputs |= spec.implied(view)
    plugins = {field: recipe.plugins[name, field] for field, _, _ in spec.plugins()}
    locations = {field: mark.location_options for field, mark, _ in marked(spec, PluginKind)}
    locations |= {field: LOCATION_OPTIONS for field, plugin in plugins.items() if isinstance(plugin, TrainableReranker)}
    locations |= {field: plugin.path_options for field, plugin in plugins.items() if isinstance(plugin, ReadsContent)}
    origin: dict[str, Any] = {
        "scheme": SCHEME,
        "stage": spec.stage,
        "version": spec.version,
        "options": {part: value for part, value in identity.items() if not callable(value)},
        "plugins": {
            field: plugin_identity(setting.name, plugins[field], locations.get(field, ()))
            for field, _, setting in spec.plugins()
        },
        "inputs": {path: sources.start if target == START else steps[target].key for path, target in inputs.items()},
    }
    for field, plugin in plugins.items():
        if isinstance(plugin, TrainableReranker):
            with plugin_errors([plugin]):
                find = partial(_network_content, plugin, field == spec.teaches)
                origin["plugins"][field]["content"] = sources.digest(find)
        elif isinstance(plugin, ReadsContent):
            origin["plugins"][field]["content"] = sources.digest(plugin.fingerprint)
    with plugin_errors(plugins.values()):
        origin |= {part: sources.digest(partial(find, view)) for part, find in identity.items() if callable(find)}
    for path, mark, file in marked(spec, InputFile):
        origin[path] = sources.digest(partial(_file_digest, f"stages.{name}.{path}", file, mark.form))
    contents = (*sources.read, *(sources.of_start if START in inputs.values() else ()))
    return Step(name, spec, sources.key(origin), origin, inputs, plugins, contents)


def _network_content(plugin: TrainableReranker, is_taught: bool) -> str:
    """Return the digest of a reranker's content; rejects an untrained head unless the stage trains it."""
    if not is_taught and (check_trained := getattr(plugin, "check_trained", None)):
        check_trained()
    return plugin.fingerprint()


def _file_digest(field_path: str, file: str, form: str) -> str:
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"{field_path}: file {file} does not exist; set {field_path}=FILE, {form}")
    return file_digest(path)


def _ancestors(steps: Mapping[str, Step], name: str) -> set[str]:
    names = {name}
    for target in steps[name].inputs.values():
        if target != START and target not in names:
            names |= _ancestors(steps, target)
    return names


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each leaf of nested mappings."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
