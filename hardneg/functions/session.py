"""Where and how a function works: its store, device, seed and settings, and who sees progress."""

import inspect
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from hardneg.functions.adhoc_recipe import AdhocRecipe, warn
from hardneg.functions.argument_values import file_path, name_of, names_of, plugin_setting, whole_number
from hardneg.functions.arguments import Settings, Where
from hardneg.records import DATASET, LOCAL, ArtifactError, PluginSetting, UsageError, suggestion
from hardneg.runtime import SEED, Progress, Silent, Task, check_device, world
from hardneg.store import Artifact, Store, cache_folder
from hardneg.store.gc_roots import begun

if TYPE_CHECKING:
    from hardneg.protocols import Searcher
    from hardneg.recipes import Options, Outcome, Plan, Step
    from hardneg.records import Encoded
    from hardneg.stages.base import Engine

_log = logging.getLogger("hardneg")
_COMMANDS = {"index": "index build"}


class Logged(Silent):
    """Shows no bars; what stays to be said goes to the log `hardneg`, as does each step."""

    def note(self, text: str) -> None:
        """A warning in the log."""
        _log.warning(text)


class _TqdmBar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, count: int = 1) -> None:
        self._bar.update(count)

    def describe(self, text: str) -> None:
        self._bar.set_postfix_str(text)


class NotebookBars(Logged):
    """Bars of tqdm, in a terminal or in a notebook."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Task]:
        """A bar that disappears when its work is done."""
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=title, unit=f" {unit}", initial=done, leave=False) as bar:
            yield _TqdmBar(bar)


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
            raise UsageError(f"no argument {unknown[0]!r}{suggestion(unknown[0], known)}")
        if (device := arguments.get("device")) is not None:
            check_device(name_of("device", device), "device")
        store, progress = arguments.get("store"), arguments.get("progress", False)
        shown = (NotebookBars() if progress else Logged()) if isinstance(progress, bool) else progress
        settings = setting_texts(arguments.get("settings", ()))
        engine = None
        if (setting := arguments.get("engine")) is not None:
            from hardneg.registry import configure

            options = plugin_setting("engine", {"name": LOCAL, **setting} if isinstance(setting, Mapping) else setting)
            engine = configure("engines", PluginSetting(options.pop("name"), options))
        opened = usual_store(store if store in (None, "") else file_path(store, "store"))
        return cls(opened, device, whole_number("seed", arguments.get("seed", SEED)), settings, shown, engine)

    def refuse_settings(self) -> None:
        """Raises UsageError where there are settings: for what makes no recipe, in which they would change nothing."""
        if self.settings:
            raise UsageError("{settings}: no recipe is made here that they could change; leave them out", "settings")

    def tell(self, note: str) -> None:
        """Warns of what a recipe has noted."""
        warn(note)

    def options(self, until: str | None = None, force: Sequence[str] = ()) -> "Options":
        """How to run a plan here."""
        from hardneg.recipes import Options
        from hardneg.stages.base import Local

        return Options(until, tuple(force), self.device, self.engine or Local())

    def make(self, plan: "Plan", until: str | None = None, force: Sequence[str] = ()) -> "Outcome":
        """The artifacts of all steps of a plan, or of those up to one; what the store has is taken."""
        with begun(self.store, "python", self.store.root, list(plan.keys.values())):
            return self.execute(plan, until, force)

    def make_later(self, command: str, plan: "Plan", until: str | None = None) -> "Outcome":
        """As `make`, of a plan that follows from another's results, so that a command's record has not its steps."""
        with begun(self.store, command, self.store.root, list(plan.keys.values())):
            return self.make(plan, until)

    def execute(self, plan: "Plan", until: str | None = None, force: Sequence[str] = ()) -> "Outcome":
        """The same; of what was made before a failure `gc` keeps nothing."""
        from hardneg.recipes import Watcher, execute

        def begins(step: "Step") -> None:
            _log.info("%s: %s", step.name, step.verb)

        return execute(plan, self.store, self.options(until, force), Watcher(begins, progress=self.progress))

    def open_index(self, step: "Step", outcome: "Outcome") -> "Searcher":
        """Open the index of a step that `make` has executed."""
        from hardneg.formats.collection import StoredCollection
        from hardneg.stages.base import ArtifactInput
        from hardneg.stages.inputs import open_searcher

        index, collection = outcome.artifacts[step.name], StoredCollection.open(outcome.artifacts[DATASET].path)
        source = ArtifactInput(step.name, index.key, index.path, step.spec, facts=index.facts, plugins=step.plugins)
        return open_searcher(source, collection, self.device, self.progress)

    def query_encoder(self, plan: "Plan") -> "Callable[[Sequence[str]], Encoded]":
        """Load the model of a plan, and return what encodes queries with it, in float32."""
        from hardneg.encoders.open.resolved import load_encoder
        from hardneg.encoders.protocol import EncodeOptions

        encoder, options = load_encoder(plan.recipe.model, self.device, "fp32"), EncodeOptions(precision="fp32")
        return lambda texts: encoder.encode(texts, "query", options, self.progress)

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
        from hardneg.functions.dataset_argument import named_dataset, named_model

        own, paths = inspect.signature(function).parameters, dict[str, str]()
        for at in (f"{stage}.{each}" for stage, fields in stages.items() for each in fields):
            if (name := names.get(at, at.partition(".")[2])) in own:
                paths[f"stages.{at}"] = name
        command = _COMMANDS.get(function.__name__, function.__name__.replace("_", "-"))
        named = None if model is None else named_model(model, self.store)
        given = named_dataset(dataset, self.store)
        return AdhocRecipe(command, given, stages, named, self.settings, self.seed, paths)

    def begin(self, recipe: Any, reads: Sequence[Path] = (), ahead: Any = None) -> Any:
        """The plan of a recipe, or None of None, before anything is made; a command has its outputs checked by then.

        reads: the files and folders of the user that are read beside the recipe's. ahead: the recipe with what is
        planned later, if there is more than in this one.
        """
        return None if recipe is None else recipe.plan()

    def artifacts(self, plan: "Plan", until: str | None = None) -> Mapping[str, Artifact]:
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


def usual_store(path: str | Path | None) -> Store:
    """The store at `path`, or at its usual place where that is none, or empty; it need not be there yet.

    Raises:
        ArtifactError: a file is there, or nothing can be.
    """
    root = Path(path or os.environ.get("HARDNEG_STORE") or cache_folder() / "store").expanduser().absolute()
    try:
        status = root.stat()
    except FileNotFoundError:
        return Store(root)
    except OSError as error:
        raise ArtifactError(
            f"store {root}: cannot be used ({error.strerror}); name another one with {{store}}", "store"
        ) from None
    if not S_ISDIR(status.st_mode):
        raise ArtifactError(f"store {root}: is a file; name a folder with {{store}}", "store")
    return Store(root)


def setting_texts(settings: Settings, named: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The texts PATH=VALUE: of a mapping's pairs, and of names with `__` for each dot of a path.

    Raises:
        UsageError: the settings are one text, or neither texts nor values by path.
    """
    if isinstance(settings, str) or not isinstance(settings, Iterable):
        raise UsageError(f"settings: give a list, [{settings!r}], or a dict of values by path")
    pairs = (
        [_pair(path, value) for path, value in settings.items()]
        if isinstance(settings, Mapping)
        else names_of("settings", settings)
    )
    return (*pairs, *(_pair(name.replace("__", "."), value) for name, value in (named or {}).items()))


def _pair(path: str, value: Any) -> str:
    """`path=value`, the value as YAML has it. Raises UsageError where a recipe cannot hold it."""
    name_of("settings", path)
    try:
        return f"{path}={json.dumps(value, default=_plain, allow_nan=False)}"
    except (TypeError, ValueError, RecursionError):
        problem = "must be a finite number, a text, or a list or dict of them"
        raise UsageError(f"settings: {path}: {problem}, not {value!r:.60}") from None


def _plain(value: Any) -> Any:
    """A path, or a number of numpy, as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError
