"""Where and how a function works, and the recipe in memory that it runs there: with the keys of one in a file."""

import inspect
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hardneg import formats, recipes
from hardneg.functions import given
from hardneg.functions.arguments import Settings, Where, file_path, name_of, names_of, plugin_setting, whole_number
from hardneg.records import ArtifactError, HardnegError, RecipeError, UsageError, layout, types, wording
from hardneg.registry import configure, plugin_errors
from hardneg.runtime import SEED, Progress, Silent, check_device, world
from hardneg.store import Artifact, Store, choices, file_digest, gc_roots

if TYPE_CHECKING:
    from hardneg.protocols import Searcher
    from hardneg.records import Encoded
    from hardneg.stages.base import Engine

ENCODED, SEARCHED, MINED, TRAINED = "index", "run", "negatives", "model"
_log = logging.getLogger("hardneg")
_COMMANDS = {"index": "index build"}


def warn(note: str) -> None:
    """Warns of what a recipe has noted, where the call was written."""
    warnings.warn(note, UserWarning, stacklevel=2)


@dataclass(frozen=True)
class AdhocRecipe:
    """The recipe of a verb; without stages it reads the dataset, without a model its stages must not need one.

    command: under whose name mistakes are told. settings: as `--set` of the command has them, laid over the recipe.
    arguments: by their path in the recipe the arguments that stand there, as mistakes name them. top: what it has
    beside, such as a title, seeds, or lengths of its model.
    """

    command: str
    dataset: str
    stages: Mapping[str, Any] = field(default_factory=lambda: {MINED: {"stage": "mine", "miner": layout.RANDOM}})
    model: str | None = None
    settings: Sequence[str] = ()
    seed: int = SEED
    arguments: Mapping[str, str] = field(default_factory=dict)
    top: Mapping[str, Any] = field(default_factory=dict)

    def check(self, tell: Callable[[str], None] = warn) -> "recipes.Recipe":
        """Checked but not planned: no data is read; `tell` gets its notes. Raises RecipeError: it has mistakes."""
        model = {"name": "none" if self.model is None else self.model, **self.top.get("model", {})}
        tree = {"dataset": self.dataset, "seed": self.seed, **self.top, "model": model, "stages": dict(self.stages)}
        try:
            checked = checked_tree(tree, self.settings, f"hardneg {self.command}")
        except RecipeError as error:
            problems = list(dict.fromkeys(map(self._by_argument, error.problems)))
            raise RecipeError(error.source, problems, ["settings", *self.arguments.values()]) from None
        for note in checked.notes:
            tell(note)
        return checked

    def plan(self, tell: Callable[[str], None] = warn) -> "recipes.Plan":
        """Its steps. Raises as `check`, and where the dataset or the model is not there."""
        return recipes.make_plan(self.check(tell))

    def _by_argument(self, problem: str) -> str:
        """A mistake at the path of an argument, by its name; one of a setting stays as it was written."""
        where, _, reason = problem.partition(": ")
        for path, name in self.arguments.items():
            written = any(setting.startswith(path) for setting in self.settings)
            if not written and (where == path or where.startswith(f"{path}.")):
                return f"{{{name}}}{where.removeprefix(path)}: {reason}"
        return f"{{settings}} {problem.removeprefix('set ')}" if where.startswith("set ") else problem


def checked_tree(
    tree: Mapping[str, Any],
    settings: Sequence[str],
    title: str,
    finish: Callable[[dict[str, Any]], dict[str, Any]] = lambda tree: tree,
) -> "recipes.Recipe":
    """The recipe of a tree under a title, with settings laid over it; `finish` changes what comes of these.

    Raises:
        RecipeError: it has mistakes.
    """
    changed, problems = recipes.language.apply_settings(tree, settings)
    return recipes.load.check_recipe(finish(changed), Path(title), earlier=problems)


def planned_recipe(
    name: str,
    preset: str | None,
    settings: Sequence[str],
    tell: Callable[[str], None] = warn,
    problems: list[HardnegError] | None = None,
) -> "recipes.Plan":
    """The plan of a shipped recipe or of a file; `tell` gets its notes.

    Raises:
        RecipeError: it has mistakes.
        HardnegError: the dataset or the model is not there, and `problems`, which would get that, is None.
    """
    loaded = recipes.load_recipe(recipes.find_recipe(name), preset, settings)
    for note in loaded.notes:
        tell(note)
    return recipes.make_plan(loaded, problems)


class Logged(Silent):
    """Shows no bars; what stays to be said goes to the log `hardneg`, as does each step."""

    def note(self, text: str) -> None:
        """A warning in the log."""
        _log.warning(text)


class NotebookBars(Logged):
    """Bars of tqdm, in a terminal or in a notebook."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        """A bar that disappears when its work is done."""
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=title, unit=f" {unit}", initial=done, leave=False) as bar:
            yield SimpleNamespace(advance=bar.update, describe=bar.set_postfix_str)


class OtherProcess(UsageError):
    """Of several processes this is not the first one, which alone has the result."""


@dataclass
class Session:
    """What `Where` comes to; settings: as the texts PATH=VALUE."""

    store: Store
    device: str | None = None
    seed: int = SEED
    settings: Sequence[str] = ()
    progress: Progress = field(default_factory=Logged)
    engine: "Engine | None" = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any], function: Callable[..., Any] | None = None) -> "Session":
        """That of a function's `**where`; a command hands over its own as `session`.

        Raises:
            UsageError: something is given that no function takes, or a device that is not there.
        """
        if isinstance(opened := arguments.get("session"), Session):
            return opened
        if unknown := [name for name in arguments if name not in Where.__annotations__]:
            known = [*(inspect.signature(function).parameters if function else ()), *Where.__annotations__]
            raise UsageError(f"no argument {unknown[0]!r}{wording.suggestion(unknown[0], known)}")
        if (device := arguments.get("device")) is not None:
            check_device(name_of("device", device), "device")
        store, progress = arguments.get("store"), arguments.get("progress", False)
        shown = (NotebookBars() if progress else Logged()) if isinstance(progress, bool) else progress
        engine = None
        if (setting := arguments.get("engine")) is not None:
            options = plugin_setting(
                "engine", {"name": layout.LOCAL, **setting} if isinstance(setting, Mapping) else setting
            )
            engine = configure("engines", types.PluginSetting(options.pop("name"), options))
        opened = usual_store(store if store in (None, "") else file_path(store, "store"))
        seed, settings = whole_number("seed", arguments.get("seed", SEED)), setting_texts(arguments.get("settings", ()))
        return cls(opened, device, seed, settings, shown, engine)

    def refuse_settings(self) -> None:
        """Raises UsageError where there are settings: for what makes no recipe, in which they would change nothing."""
        if self.settings:
            raise UsageError("{settings}: no recipe is made here that they could change; leave them out", "settings")

    def tell(self, note: str) -> None:
        """Warns of what a recipe has noted."""
        warn(note)

    def recipe(
        self,
        function: Callable[..., Any],
        dataset: Any,
        model: Any,
        stages: Mapping[str, Mapping[str, Any]],
        names: Mapping[str, str] = {},
    ) -> AdhocRecipe:
        """The recipe in memory of a function's stages, with the dataset and the model that were given.

        names: what the function calls fields, by STAGE.FIELD; others have the names of its arguments.
        """
        own, paths = inspect.signature(function).parameters, dict[str, str]()
        for at in (f"{stage}.{each}" for stage, fields in stages.items() for each in fields):
            if (name := names.get(at, at.partition(".")[2])) in own:
                paths[f"stages.{at}"] = name
        command = _COMMANDS.get(function.__name__, function.__name__.replace("_", "-"))
        named = None if model is None else given.named_model(model, self.store)
        data = given.named_dataset(dataset, self.store)
        return AdhocRecipe(command, data, stages, named, self.settings, self.seed, paths)

    def begin(self, recipe: Any, reads: Sequence[Path] = (), ahead: Any = None) -> Any:
        """The plan of a recipe, or None of None, before anything is made; a command has its outputs checked by then.

        reads: the files and folders of the user that are read beside the recipe's. ahead: the recipe with what is
        planned later, if there is more than in this one.
        """
        return None if recipe is None else recipe.plan()

    def options(self, until: str | None = None, force: Sequence[str] = ()) -> "recipes.Options":
        """How to run a plan here."""
        from hardneg.stages.base import Local

        return recipes.Options(until, tuple(force), self.device, self.engine or Local())

    def make(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """The artifacts of all steps of a plan, or of those up to one; what the store has is taken."""
        with gc_roots.begun(self.store, "python", self.store.root, list(plan.keys.values())):
            return self.execute(plan, until, force)

    def make_later(self, command: str, plan: "recipes.Plan", until: str | None = None) -> "recipes.Outcome":
        """As `make`, of a plan that follows from another's results, so that a command's record has not its steps."""
        with gc_roots.begun(self.store, command, self.store.root, list(plan.keys.values())):
            return self.make(plan, until)

    def execute(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """The same; of what was made before a failure `gc` keeps nothing."""

        def begins(step: "recipes.Step") -> None:
            _log.info("%s: %s", step.name, step.verb)

        return recipes.execute(
            plan, self.store, self.options(until, force), recipes.Watcher(begins, progress=self.progress)
        )

    def artifacts(self, plan: "recipes.Plan", until: str | None = None) -> Mapping[str, Artifact]:
        """The artifacts of all steps, or of those up to one, by name.

        Raises:
            OtherProcess: the work is done, and another process has its result.
        """
        artifacts = self.make(plan, until).artifacts
        self.leave()
        return artifacts

    def leave(self) -> None:
        """Raises OtherProcess in all but the first of several processes, whose work is done."""
        if not world().first:
            raise OtherProcess("of several processes the first one has the result; read it from the store")

    def make_dataset(self, plan: "recipes.Plan") -> Artifact:
        """The stored collection of a plan, read now unless the store has it."""
        return self.make(plan, layout.DATASET).artifacts[layout.DATASET]

    def make_from(
        self, plan: "recipes.Plan", stage: str, dataset: Artifact, runs: Mapping[str, Path]
    ) -> tuple[Artifact, Mapping[str, Any]]:
        """The artifact of a stage on given runs, and with its facts what of the runs is not in the collection.

        Its key is the digest of what the stage's own would be, with the runs' content in place of their steps. `runs`
        are files by the path of their input.

        Raises:
            DataError: a run has a mistake, or none of its queries is in the split.
        """
        from hardneg.stages.base import ArtifactInput, StageContext

        step, collection, facts = (
            plan.steps[stage],
            formats.collection.StoredCollection.open(dataset.path),
            dict[str, Any](),
        )
        inputs = {layout.DATASET: ArtifactInput(layout.DATASET, dataset.key, dataset.path)}

        def make(folder: Path) -> Mapping[str, Any]:
            context = StageContext(step.name, step.spec, folder, inputs, step.plugins, self.progress, self.device)
            with plugin_errors(step.plugins.values()):
                made = self.options().engine.make(context)
            step.check_contents()
            return made

        with TemporaryDirectory() as aside:
            for name, path in runs.items():
                (folder := Path(aside) / name).mkdir()
                left_out = formats.runs.rewrite_run(path, collection, vars(step.spec)["split"], folder / layout.RUN)
                inputs[name] = ArtifactInput("run", file_digest(folder / layout.RUN), folder)
                label = name.partition(".")[2]
                prefix = f"{label}: " if label not in ("", "run") else ""
                facts |= {f"{prefix}{key}": count for key, count in left_out.items()}
            origin = {**step.origin, "inputs": {name: each.key for name, each in inputs.items()}, "name": step.name}
            artifact = given.keep_result(self.store, step.spec.artifact_type, origin, make)
        return artifact, {**artifact.facts, **facts}

    def open_index(self, step: "recipes.Step", outcome: "recipes.Outcome") -> "Searcher":
        """Open the index of a step that `make` has executed."""
        from hardneg.stages.base import ArtifactInput
        from hardneg.stages.inputs import open_searcher

        index, collection = (
            outcome.artifacts[step.name],
            formats.collection.StoredCollection.open(outcome.artifacts[layout.DATASET].path),
        )
        source = ArtifactInput(step.name, index.key, index.path, step.spec, facts=index.facts, plugins=step.plugins)
        return open_searcher(source, collection, self.device, self.progress)

    def query_encoder(self, plan: "recipes.Plan") -> "Callable[[Sequence[str]], Encoded]":
        """Load the model of a plan, and return what encodes queries with it, in float32."""
        from hardneg.encoders.open.resolved import load_encoder
        from hardneg.encoders.protocol import EncodeOptions

        encoder, options = load_encoder(plan.recipe.model, self.device, "fp32"), EncodeOptions(precision="fp32")
        return lambda texts: encoder.encode(texts, "query", options, self.progress)


def usual_store(path: str | Path | None) -> Store:
    """The store at `path`, or at its usual place where that is none, or empty; it need not be there yet.

    Raises:
        ArtifactError: a file is there, or nothing can be.
    """
    root = Path(path or os.environ.get("HARDNEG_STORE") or choices.cache_folder() / "store").expanduser().absolute()
    try:
        if not S_ISDIR(root.stat().st_mode):
            raise ArtifactError(f"store {root}: is a file; name a folder with {{store}}", "store")
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"cannot be used ({error.strerror}); name another one with {{store}}"
        raise ArtifactError(f"store {root}: {problem}", "store") from None
    return Store(root)


def setting_texts(settings: Settings, named: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The texts PATH=VALUE: of a mapping's pairs, and of names with `__` for each dot of a path.

    Raises:
        UsageError: the settings are one text, or neither texts nor values by path; or a recipe cannot hold a value.
    """
    if isinstance(settings, str) or not isinstance(settings, Iterable):
        raise UsageError(f"settings: give a list, [{settings!r}], or a dict of values by path")
    texts, pairs = ([], settings) if isinstance(settings, Mapping) else (names_of("settings", settings), {})
    for path, value in {**pairs, **{name.replace("__", "."): value for name, value in (named or {}).items()}}.items():
        try:
            texts.append(f"{name_of('settings', path)}={json.dumps(value, default=_plain, allow_nan=False)}")
        except (TypeError, ValueError, RecursionError):
            problem = "must be a finite number, a text, or a list or dict of them"
            raise UsageError(f"settings: {path}: {problem}, not {value!r:.60}") from None
    return tuple(texts)


def _plain(value: Any) -> Any:
    """A path, or a number of numpy, as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError
