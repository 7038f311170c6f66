"""Recipes that a function or a command makes in memory: run like those of files, with the same keys in one store."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.functions.argument_values import plugin_setting
from hardneg.records import RANDOM, HardnegError, PluginError, RecipeError
from hardneg.runtime import SEED

if TYPE_CHECKING:
    from hardneg.recipes import Plan, Recipe

ENCODED, SEARCHED, MINED, TRAINED = "index", "run", "negatives", "model"


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
    stages: Mapping[str, Any] = field(default_factory=lambda: {MINED: {"stage": "mine", "miner": RANDOM}})
    model: str | None = None
    settings: Sequence[str] = ()
    seed: int = SEED
    arguments: Mapping[str, str] = field(default_factory=dict)
    top: Mapping[str, Any] = field(default_factory=dict)

    def check(self, tell: Callable[[str], None] = warn) -> "Recipe":
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

    def plan(self, tell: Callable[[str], None] = warn) -> "Plan":
        """Its steps. Raises as `check`, and where the dataset or the model is not there."""
        from hardneg.recipes import make_plan

        return make_plan(self.check(tell))

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
) -> "Recipe":
    """The recipe of a tree under a title, with settings laid over it; `finish` changes what comes of these.

    Raises:
        RecipeError: it has mistakes.
    """
    from hardneg.recipes import apply_settings, check_recipe

    changed, problems = apply_settings(tree, settings)
    return check_recipe(finish(changed), Path(title), earlier=problems)


def planned_recipe(
    name: str,
    preset: str | None,
    settings: Sequence[str],
    tell: Callable[[str], None] = warn,
    problems: list[HardnegError] | None = None,
) -> "Plan":
    """The plan of a shipped recipe or of a file; `tell` gets its notes.

    Raises:
        RecipeError: it has mistakes.
        HardnegError: the dataset or the model is not there, and `problems`, which would get that, is None.
    """
    from hardneg.recipes import find_recipe, load_recipe, make_plan

    loaded = load_recipe(find_recipe(name), preset, settings)
    for note in loaded.notes:
        tell(note)
    return make_plan(loaded, problems)


def mining_stage(miner: str | Mapping[str, Any], split: str) -> dict[str, Any]:
    """The stage that mines; a miner's options stand beside its `name`."""
    return {"stage": "mine", "split": split, "miner": plugin_setting("miner", miner)}


def training_stage(fields: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A stage `train` with options of training where it has them: among its own fields, or within its `options`."""
    from hardneg.registry import load_plugin

    known = {*load_plugin("stages", "train").model_fields} - {"stage", "options", *fields}
    own = {name: value for name, value in options.items() if name in known}
    within = {name: value for name, value in options.items() if name not in known}
    return {"stage": "train", **fields, **own, "options": within}


def list_options(mining: Mapping[str, Any]) -> dict[str, Any]:
    """What the stage says besides whose list is mined: positives that it missed, where they are compared with."""
    from hardneg.fields import parse_setting
    from hardneg.mining.choosing import compares
    from hardneg.registry import configure

    plugins: list[object] = []
    for kind, setting in (("miners", mining["miner"]), *(("filters", each) for each in mining.get("filters", ()))):
        with suppress(PluginError):  # the recipe's check tells it
            plugins.append(configure(kind, parse_setting(setting)))
    return {"positives": True} if compares(*plugins) else {}
