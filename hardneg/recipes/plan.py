"""A recipe becomes steps in order, each with the key that its content decides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hardneg.fields import PluginKind, input_files, marked_fields
from hardneg.protocols import LOCATION_OPTIONS, ReadsContent, TrainableReranker
from hardneg.recipes.load import Recipe
from hardneg.recipes.run_folder import maker
from hardneg.records.errors import ArtifactError, DataError, HardnegError, ModelError, UsageError
from hardneg.records.layout import DATASET, START
from hardneg.records.wording import suggestion
from hardneg.registry import plugin_errors
from hardneg.stages.shared.stage_spec import StageSpec
from hardneg.store.artifacts import Artifact, Store
from hardneg.store.digest import Content, digest, file_digest
from hardneg.store.identity import plugin_identity

SCHEME = 1


@dataclass(frozen=True)
class Step:
    """One stage of a recipe with its identity.

    key: digest of `origin`. origin: all that may change the result: stage, versions, options, plugins, input keys.
    inputs: the step each reference leads to, by its path in the spec; `dataset` and the queries' models are added.
    plugins: configured plugins by field. contents: what its key counts that is not in the store.
    """

    name: str
    spec: StageSpec
    key: str
    origin: Mapping[str, Any]
    inputs: Mapping[str, str]
    plugins: Mapping[str, Any]
    contents: Sequence[Content] = ()

    def check_contents(self) -> None:
        """Raises DataError where a file, a model or a dataset is another than when its key was found."""
        for content in self.contents:
            content.check()

    @property
    def verb(self) -> str:
        """The stage's verb, as in the recipe."""
        return self.spec.verb

    @property
    def in_blocks(self) -> bool:
        """Whether it is cut into blocks, which an engine makes."""
        return type(self.spec).blocks is not StageSpec.blocks


@dataclass(frozen=True)
class Plan:
    """All steps in an order in which they can run; `start` is the key of the recipe's own model."""

    recipe: Recipe
    start: str
    steps: Mapping[str, Step]

    @property
    def keys(self) -> dict[str, str]:
        """The key of each step."""
        return {name: step.key for name, step in self.steps.items()}

    def named(self, name: str) -> list[str]:
        """The steps of that name: one, or one for each seed. Raises UsageError: there is no such step."""
        if name in self.recipe.copies:
            return list(self.recipe.copies[name].values())
        if name not in self.steps:
            known = [*self.recipe.copies, *self.steps]
            raise UsageError(f"no step {name!r}{suggestion(name, known)}; there are: {', '.join(known)}")
        return [name]

    def until(self, name: str | None) -> list[Step]:
        """The steps that `name` needs, itself last; all steps for None. Raises UsageError: there is no such step."""
        if name is None:
            return list(self.steps.values())
        needed = set().union(*(_ancestors(self.steps, each) for each in self.named(name)))
        return [step for step in self.steps.values() if step.name in needed]

    def dependents(self, name: str) -> list[Step]:
        """`name` and every step that needs it, directly or not."""
        named = set(self.named(name))
        return [step for step in self.steps.values() if named & _ancestors(self.steps, step.name)]


def make_plan(recipe: Recipe, problems: list[HardnegError] | None = None) -> Plan:
    """The steps of a recipe with their keys; reads the start model's files and the dataset's source for their digests.

    With `problems`, a model or dataset that cannot be had is added there and gets a key that nothing has:
    enough to look at the plan, not to run it.

    Raises:
        HardnegError: the model or the dataset is not there.
    """
    used = any(target == START for spec in recipe.stages.values() for _, target, _ in spec.references())
    of_start = _Sources("", problems, (), [])
    content = of_start.digest(lambda: _model_digest(recipe)) if used else "not used"
    start = digest({"scheme": SCHEME, "model": content})
    steps: dict[str, Step] = {}
    for name in _order(recipe.stages):
        steps[name] = _step(recipe, name, steps, _Sources(start, problems, of_start.read, []))
    return Plan(recipe, start, steps)


def _model_digest(recipe: Recipe) -> str:
    """The model's digest; where it is what another recipe makes, and that has not run, how to run it."""
    model = recipe.model
    if (command := maker(model.name)) and not Path(model.name).is_dir():
        raise ModelError(f"model {model.name}: not there yet: make it with `{command}`, or set model.name=FOLDER")
    return recipe.models.of(model, fetched=True).digest


@dataclass(frozen=True)
class _Sources:
    """The key of the recipe's own model, with what that is of; read: what a step's key counts beside."""

    start: str
    problems: list[HardnegError] | None
    of_start: Sequence[Content]
    read: list[Content]

    def digest(self, find: Callable[[], str]) -> str:
        failure: HardnegError
        try:
            self.read.append(Content.of(find))
            return self.read[-1].digest
        except HardnegError as error:
            failure = error
        except OSError as error:
            failure = DataError(f"{error.filename}: cannot be read: {error.strerror}")
        if self.problems is None:
            raise failure
        self.problems.append(failure)
        return f"unknown: {failure}"


def cached(step: Step, store: Store) -> Artifact | None:
    """The finished artifact of a step, or None where it is missing or damaged."""
    try:
        return store.find(step.key)
    except ArtifactError:
        return None


def explain(step: Step, store: Store) -> list[str]:
    """Why a step would run, or what its artifact is: compared with the most like artifact of the same stage."""
    if cached(step, store):
        return [f"{step.name}: in the store as {step.key}; nothing that may change its result has changed"]
    others = [item for item in store.artifacts() if isinstance(item, Artifact) and item.origin["stage"] == step.verb]
    lines = [f"{step.name}: not in the store ({step.key})"]
    if not others:
        return [*lines, f"no artifact of stage {step.verb} is there to compare with"]
    wanted = dict(flat(step.origin))
    origins = {each.key: dict(flat({**each.origin, "name": None})) for each in others}  # the name is in no key
    same = {key: sum(there.get(path) == told for path, told in wanted.items()) for key, there in origins.items()}
    nearest = max(origins, key=lambda key: (same[key], -len(origins[key])))
    there = origins[nearest]
    lines.append(f"the most like artifact of stage {step.verb} is {nearest}; it differs in:")
    for path in sorted(wanted.keys() | there.keys()):
        if wanted.get(path) != there.get(path):
            lines.append(f"  {path}: {there.get(path, 'not there')!r} then, {wanted.get(path, 'not there')!r} now")
    return lines


def _step(recipe: Recipe, name: str, steps: Mapping[str, Step], sources: _Sources) -> Step:
    spec = recipe.stages[name]
    inputs = {path: target for path, target, _ in spec.references()}
    if spec.needs_dataset:
        inputs.setdefault(DATASET, DATASET)
    inputs |= spec.implied(recipe.view(name))
    plugins = {field: recipe.plugins[name, field] for field, _, _ in spec.plugins()}
    locations = {field: mark.location_options for field, mark, _ in marked_fields(spec, PluginKind)}
    locations |= {field: LOCATION_OPTIONS for field, plugin in plugins.items() if isinstance(plugin, TrainableReranker)}
    locations |= {field: plugin.path_options for field, plugin in plugins.items() if isinstance(plugin, ReadsContent)}
    origin: dict[str, Any] = {
        "scheme": SCHEME,
        "stage": spec.verb,
        "version": spec.version,
        "options": spec.identity(),
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
        origin |= {part: sources.digest(find) for part, find in spec.content(recipe.view(name)).items()}
    for path, mark, file in input_files(spec):
        origin[path] = sources.digest(partial(_file_digest, f"stages.{name}.{path}", file, mark.form))
    contents = (*sources.read, *(sources.of_start if START in inputs.values() else ()))
    return Step(name, spec, digest(origin), origin, inputs, plugins, contents)


def _network_content(plugin: TrainableReranker, is_taught: bool) -> str:
    """The digest of a reranker's content; refuses one that is to score with a head that nobody has trained."""
    if not is_taught and (check_trained := getattr(plugin, "check_trained", None)):
        check_trained()
    return plugin.fingerprint()


def _file_digest(field_path: str, file: str, form: str) -> str:
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"{field_path}: no file {file}: set {field_path}=FILE, {form}")
    return file_digest(path)


def _order(stages: Mapping[str, StageSpec]) -> list[str]:
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name in ordered or name == START:
            return
        for _, target, _ in stages[name].references():
            visit(target)
        ordered.append(name)

    for name in stages:
        visit(name)
    return ordered


def _ancestors(steps: Mapping[str, Step], name: str) -> set[str]:
    names = {name}
    for target in steps[name].inputs.values():
        if target != START and target not in names:
            names |= _ancestors(steps, target)
    return names


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings, each with its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
