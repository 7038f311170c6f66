"""The session of a function call: store, device, settings, and the in-memory recipe that the function runs."""

import inspect
import json
import logging
import os
import re
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
from hardneg.formats.text_lines import find_file
from hardneg.functions import arguments, given
from hardneg.records import ArtifactError, HardnegError, RecipeError, UsageError, layout, types, wording
from hardneg.registry import configure, plugin_errors
from hardneg.runtime import SEED, Progress, Silent, check_device, world
from hardneg.store import Artifact, Store, cache_folder, file_digest, outputs

if TYPE_CHECKING:
    from hardneg.protocols import Searcher
    from hardneg.records import Encoded
    from hardneg.stages import Engine

ENCODED, SEARCHED, MINED, TRAINED = "index", "run", "negatives", "model"
_log = logging.getLogger("hardneg")
_COMMANDS = {"index": "index build"}


def warn(note: str) -> None:
    """Issue a recipe's note as a `UserWarning` at the line that calls this function."""
    warnings.warn(note, UserWarning, stacklevel=2)


@dataclass(frozen=True)
class AdhocRecipe:
    """A recipe in memory. Its artifacts have the same keys as those of a recipe file with the same content.

    command: the command to name in messages. stages: stages by name; by default a placeholder, for reading only the
    dataset. settings: PATH=VALUE strings, as for `--set`. arguments: argument names by recipe path, for messages.
    top: further top-level fields, such as a title, seeds, or model fields.
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
        """Validate the recipe, reading no data. tell: called with each note. Raises RecipeError with all mistakes."""
        model = {"name": "none" if self.model is None else self.model, **self.top.get("model", {})}
        tree = {"dataset": self.dataset, "seed": self.seed, **self.top, "model": model, "stages": dict(self.stages)}
        try:
            changed, problems = recipes.apply_settings(tree, self.settings)
            checked = recipes.check_recipe(changed, Path(f"hardneg {self.command}"), earlier=problems)
        except RecipeError as error:
            problems = list(dict.fromkeys(map(self._by_argument, error.problems)))
            raise RecipeError(error.source, problems, ["settings", *self.arguments.values()]) from None
        for note in checked.notes:
            tell(re.sub(r"^\{(\w+)\}", r"\1", self._by_argument(note)))
        return checked

    def plan(self, tell: Callable[[str], None] = warn) -> "recipes.Plan":
        """Plan the steps. Raises the errors of `check`, and a HardnegError if the dataset or the model is missing."""
        return recipes.make_plan(self.check(tell))

    def _by_argument(self, problem: str) -> str:
        """A recipe mistake, with its path replaced by the argument's name unless it comes from a setting."""
        where, _, reason = problem.partition(": ")
        for path, name in self.arguments.items():
            written = any(setting.startswith(path) for setting in self.settings)
            if not written and (where == path or where.startswith(f"{path}.")):
                return f"{{{name}}}{where.removeprefix(path)}: {reason}"
        return f"{{settings}} {problem.removeprefix('set ')}" if where.startswith("set ") else problem


def planned_recipe(
    name: str,
    preset: str | None,
    settings: Sequence[str],
    tell: Callable[[str], None] = warn,
    problems: list[HardnegError] | None = None,
) -> "recipes.Plan":
    """Plan a shipped recipe or a recipe file. tell: called with each note of the recipe.

    problems: a list to which errors about a missing dataset or model are added; None to raise them.

    Raises:
        RecipeError: the recipe has mistakes; the message lists all of them.
        HardnegError: the dataset or a model is missing.
    """
    loaded = recipes.load_recipe(recipes.find_recipe(name), preset, settings)
    for note in loaded.notes:
        tell(note)
    return recipes.make_plan(loaded, problems)


class Logged(Silent):
    """Progress display without bars; notes go to the logger `hardneg`."""

    def note(self, text: str) -> None:
        """Log the note as a warning."""
        _log.warning(text)


class NotebookBars(Logged):
    """Progress display with tqdm bars, in a terminal or a notebook; notes are logged."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Any]:
        """Show a bar, from `done` to `total`, during the block; yield an object with `advance` and `describe`."""
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=title, unit=f" {unit}", initial=done, leave=False) as bar:
            yield SimpleNamespace(advance=bar.update, describe=bar.set_postfix_str)


class OtherProcess(UsageError):
    """Raised in all processes except the first, which alone has the result."""


@dataclass
class Session:
    """The store, device, seed, settings (PATH=VALUE strings), progress display and engine of a function call."""

    store: Store
    device: str | None = None
    seed: int = SEED
    settings: Sequence[str] = ()
    progress: Progress = field(default_factory=Logged)
    engine: "Engine | None" = None

    @classmethod
    def of(cls, where: Mapping[str, Any], function: Callable[..., Any] | None = None) -> "Session":
        """Return the session for the `**where` of `function`; a command passes its own session as `session`.

        Raises UsageError, PluginError (engine) or ArtifactError (store) if an argument is unknown or invalid.
        """
        if isinstance(opened := where.get("session"), Session):
            return opened
        if unknown := [name for name in where if name not in arguments.Where.__annotations__]:
            known = [*(inspect.signature(function).parameters if function else ()), *arguments.Where.__annotations__]
            raise UsageError(f"unknown argument {unknown[0]!r}{wording.suggestion(unknown[0], known)}")
        if (device := where.get("device")) is not None:
            check_device(arguments.name_of("device", device), "device")
        store, progress = where.get("store"), where.get("progress", False)
        shown = (NotebookBars() if progress else Logged()) if isinstance(progress, bool) else progress
        engine = where.get("engine")
        if engine is not None and not hasattr(engine, "make"):
            setting = {"name": layout.LOCAL, **engine} if isinstance(engine, Mapping) else engine
            options = arguments.plugin_setting("engine", setting)
            engine = configure("engine", types.PluginSetting(options.pop("name"), options))
        opened = usual_store(store if store in (None, "") else arguments.file_path(store, "store"))
        seed, settings = arguments.whole_number("seed", where.get("seed", SEED)), where.get("settings", ())
        return cls(opened, device, seed, setting_texts(settings), shown, engine)

    def refuse_settings(self) -> None:
        """Raise UsageError if there are settings; called by functions that have no recipe to change."""
        if self.settings:
            raise UsageError("{settings}: there is no recipe to change; omit this option", "settings")

    def tell(self, note: str) -> None:
        """Issue a recipe's note as a warning."""
        warn(note)

    def recipe(
        self,
        function: Callable[..., Any],
        dataset: Any,
        model: Any,
        stages: Mapping[str, Mapping[str, Any]],
        names: Mapping[str, str] = {},
    ) -> AdhocRecipe:
        """Return an in-memory recipe with the given dataset, model and stages; errors name arguments of `function`.

        names: argument names by STAGE.FIELD, where the argument and the field have different names.
        """
        own, paths = inspect.signature(function).parameters, dict[str, str]()
        for at in (f"{stage}.{each}" for stage, fields in stages.items() for each in fields):
            if (name := names.get(at, at.partition(".")[2])) in own:
                paths[f"stages.{at}"] = name
        command = _COMMANDS.get(function.__name__, function.__name__.replace("_", "-"))
        named = None if model is None else named_model(model, self.store)
        data = named_dataset(dataset, self.store)
        return AdhocRecipe(command, data, stages, named, self.settings, self.seed, paths)

    def begin(self, recipe: Any, reads: Sequence[Path] = ()) -> Any:
        """Return the plan of a recipe, or None without a recipe. In a command, this also checks the outputs.

        reads: input files and folders that are not part of the recipe.
        """
        return None if recipe is None else recipe.plan()

    def make(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """Create or reuse the artifacts of a plan's steps, up to step `until` if given. force: steps to rerun."""
        with outputs.reserve(self.store, "python", self.store.root, list(plan.keys.values())):
            return self.execute(plan, until, force)

    def make_later(self, command: str, plan: "recipes.Plan", until: str | None = None) -> "recipes.Outcome":
        """Run `make` on a plan that uses another plan's results; `gc` keeps its artifacts until `command` succeeds."""
        with outputs.reserve(self.store, command, self.store.root, list(plan.keys.values())):
            return self.make(plan, until)

    def execute(self, plan: "recipes.Plan", until: str | None = None, force: Sequence[str] = ()) -> "recipes.Outcome":
        """Run a plan like `make`, but without protecting its artifacts from `artifacts gc` after a failure."""
        from hardneg.stages import Local

        options = recipes.Options(until, tuple(force), self.device, self.engine or Local())
        watcher = recipes.Watcher(lambda step: _log.info("%s: %s", step.name, step.verb), progress=self.progress)
        return recipes.execute(plan, self.store, options, watcher)

    def artifacts(self, plan: "recipes.Plan", until: str | None = None) -> Mapping[str, Artifact]:
        """Create or reuse the artifacts of a plan's steps, up to step `until` if given; return them by step name.

        Raises OtherProcess if another process has the result.
        """
        artifacts = self.make(plan, until).artifacts
        if world().rank > 0:
            raise OtherProcess("only the first process has the result; read it from the store")
        return artifacts

    def make_dataset(self, plan: "recipes.Plan") -> Artifact:
        """Create or reuse the stored collection of a plan; return its artifact."""
        return self.make(plan, layout.DATASET).artifacts[layout.DATASET]

    def make_from(
        self, plan: "recipes.Plan", stage: str, dataset: Artifact, runs: Mapping[str, Path]
    ) -> tuple[Artifact, Mapping[str, Any]]:
        """Run a stage on run files; return its artifact, and its facts with the counts of run entries left out.

        The artifact's key depends on the stage and the content of the runs, not on earlier steps.

        runs: run files by the stage's input field, such as `runs.run`.

        Raises DataError if a run is malformed, or has no queries of the split.
        """
        from hardneg.stages import ArtifactInput, Local, StageContext

        step, collection, facts = (
            plan.steps[stage],
            formats.collection.StoredCollection.open(dataset.path),
            dict[str, Any](),
        )
        inputs = {layout.DATASET: ArtifactInput(layout.DATASET, dataset.key, dataset.path)}

        def make(folder: Path) -> Mapping[str, Any]:
            context = StageContext(step.name, step.spec, folder, inputs, step.plugins, self.progress, self.device)
            with plugin_errors(step.plugins.values()):
                made = (self.engine or Local()).make(context)
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
        """Open the index that a step built; outcome: the result of `make` for the plan with this step."""
        from hardneg.stages import ArtifactInput
        from hardneg.stages.work import open_searcher

        index, collection = (
            outcome.artifacts[step.name],
            formats.collection.StoredCollection.open(outcome.artifacts[layout.DATASET].path),
        )
        source = ArtifactInput(step.name, index.key, index.path, step.spec, facts=index.facts, plugins=step.plugins)
        return open_searcher(source, collection, self.device, self.progress)

    def query_encoder(self, plan: "recipes.Plan") -> "Callable[[Sequence[str]], Encoded]":
        """Load a plan's model in float32, and return a function that encodes queries."""
        from hardneg.encoders.open.resolved import load_encoder
        from hardneg.encoders.protocol import EncodeOptions

        encoder, options = load_encoder(plan.recipe.model, self.device, "fp32"), EncodeOptions(precision="fp32")
        return lambda texts: encoder.encode(texts, "query", options, self.progress)


def usual_store(path: str | Path | None) -> Store:
    """Return the store at `path`, or the default store if the path is None or empty; the store need not exist.

    Raises ArtifactError if the path is a file, or cannot be used.
    """
    root = Path(path or os.environ.get("HARDNEG_STORE") or cache_folder() / "store").expanduser().absolute()
    try:
        if not S_ISDIR(root.stat().st_mode):
            raise ArtifactError(f"store {root}: is a file; give a folder with {{store}}", "store")
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"cannot be used ({error.strerror}); use another with {{store}}"
        raise ArtifactError(f"store {root}: {problem}", "store") from None
    return Store(root)


def named_dataset(dataset: arguments.Dataset, store: Store) -> str:
    """Return the name of a dataset for a recipe; an in-memory dataset is written to the store.

    Raises:
        UsageError: the object has an unsupported type.
        DataError: an in-memory dataset is invalid; the message names the entry.
    """
    if not isinstance(dataset, str | os.PathLike):
        kept = given.keep_content(store, "given-collection", lambda folder: given.write_dataset(dataset, folder))
        return f"{layout.BEIR}:{kept.path}"
    try:
        if isinstance(dataset, os.PathLike) or find_file(Path(dataset), "corpus.jsonl") is not None:
            return f"{layout.BEIR}:{os.fspath(dataset)}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise UsageError(f"dataset: {dataset!r:.60} is not a valid name ({reason}); {given.FORMS}") from None
    return arguments.name_of("dataset", dataset)


def named_model(argument: arguments.Model, store: Store) -> str:
    """Return the name of a model for a recipe; an in-memory model is saved to the store.

    Raises UsageError if the object has an unsupported type.
    """
    if isinstance(argument, str | os.PathLike):
        return arguments.name_of("model", os.fspath(argument))
    if not hasattr(argument, "save_pretrained") or not hasattr(argument, "tokenizer"):
        forms = "give a folder, a hub id, or a sentence-transformers model"
        raise UsageError(f"model: cannot use {argument!r:.60}; {forms}")

    def save(folder: Path) -> None:
        from hardneg.encoders.open.resolved import quiet

        with quiet():
            argument.save_pretrained(str(folder), create_model_card=False)

    return str(given.keep_content(store, "given-model", save).path)


def model_name(argument: arguments.Model) -> str:
    """Return a short name for a model: the last part of its path, or the name or class of a model in memory."""
    if isinstance(argument, str | Path):
        return Path(str(argument).partition(":")[2] or argument).name
    return str(getattr(argument, "name", type(argument).__name__))


def setting_texts(settings: arguments.Settings, named: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Convert settings (strings or a mapping) to PATH=VALUE strings. named: more values; `__` in a name is a dot.

    Raises UsageError if the settings have an unsupported type, or a value cannot be written as JSON.
    """
    if isinstance(settings, str) or not isinstance(settings, Iterable):
        raise UsageError(f"settings: give a list, [{settings!r}], or a dict of values by path")
    texts, pairs = ([], settings) if isinstance(settings, Mapping) else (arguments.names_of("settings", settings), {})
    for path, value in {**pairs, **{name.replace("__", "."): value for name, value in (named or {}).items()}}.items():
        try:
            texts.append(f"{arguments.name_of('settings', path)}={json.dumps(value, default=_plain, allow_nan=False)}")
        except (TypeError, ValueError, RecursionError):
            problem = "must be a finite number, a string, or a list or dict of these"
            raise UsageError(f"settings: {path}: {problem}, not {value!r:.60}") from None
    return tuple(texts)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError
