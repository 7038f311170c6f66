"""The expansion of a recipe: its short forms (`extends`, presets, `for`, `system`, `defaults`) become plain stages."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError, validate_call
from pydantic_core import ErrorDetails

from hardneg.recipe.functions import PRESET, RecipeFunction
from hardneg.recipe.grids import FOR, Grids
from hardneg.recipe.inheritance import (
    EXTENDS,
    PRESETS,
    apply_preset,
    is_removed,
    laid,
    lay_under,
    read_layers,
    without_removed,
)
from hardneg.recipe.settings import apply_settings
from hardneg.recipe.systems import SYSTEM, RowOrder, Systems
from hardneg.recipe.task_prompts import with_prompts_of
from hardneg.recipe.yaml_load import as_yaml, check_values, head_comment, is_shipped, shipped_recipes
from hardneg.records.errors import PluginError, RecipeError
from hardneg.records.wording import complaint, suggestion
from hardneg.registry.plugins import load_plugin, not_installed, plugin_names

DEFAULTS = "defaults"
SHORT_FORMS = (EXTENDS, PRESETS, DEFAULTS, FOR)
"""What may stand at the top of a recipe beside what the plain one has."""
_STAGES = "stages"
_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}


@dataclass
class Expanded:
    """A recipe as plain stages.

    tree: `dataset`, `model`, `stages` and so on, as if all of it had been written. preset: the one that was chosen.
    problems, notes: one line each. origins: of what a `for` or a `system` has made, the path as it is written.
    defaults: of each verb. own: what each stage says itself, where defaults were laid under it.
    """

    tree: dict[str, Any]
    preset: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    origins: dict[tuple[str, ...], str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def located(self, problem: str) -> str:
        """A problem of the plain stages with the path that was written."""
        for name, own in self.own.items():
            path = problem.removeprefix(f"{_STAGES}.{name}.")
            field_path, *rest = path.split(": ")
            keys, verb = [*field_path.split("."), *rest[: len(rest) - 1][:1]], own["stage"]
            if path != problem and _depth(self.defaults[verb], keys) > _depth(own, keys):
                return f"{DEFAULTS}.{verb}.{path}"
        origins = [path for path in self.origins if problem.startswith((f"{'.'.join(path)}.", f"{'.'.join(path)}:"))]
        return f"{problem} (from {self.origins[max(origins, key=len)]})" if origins else problem


def expand(
    source: Path | RecipeFunction, preset: str | None, settings: Sequence[str], checked: bool = True
) -> Expanded:
    """Reads a recipe and writes out its short forms.

    `settings` reach into what is written where they name a `for`, a `system`, a default or a key with braces, else into
    the plain stages. Without `checked` no stage's class is imported, and defaults are taken as they are.

    Raises:
        RecipeError: the file, or one that it extends, is no recipe; or a function returns none.
    """
    if isinstance(source, RecipeFunction):
        return _called(source, preset, settings)
    path = source
    layers = read_layers(path, preset)
    tree, chosen, problems = apply_preset(laid(layers), preset)
    first = [setting for setting in settings if _reaches_into_short_forms(setting)]
    tree, more = apply_settings(tree, first)
    expanded = Expanded(tree, chosen, [*problems, *more])
    expanded.tree = without_removed(_plain(tree, expanded, RowOrder(layers, chosen), checked))
    later = [setting for setting in settings if setting not in first]
    expanded.tree, more = apply_settings(expanded.tree, later)
    expanded.problems += more
    expanded.tree = with_prompts_of(expanded.tree, expanded.problems)
    if not is_shipped(path):
        expanded.notes += _taken(apply_preset(layers[-1], chosen)[0], expanded)
    return expanded


def recipe_tree(name: str, preset: str) -> dict[str, Any]:
    """The plain stages of a shipped file, for functions that add to them."""
    return expand(shipped_recipes()[name], preset, ()).tree


def plain_text(source: Path | RecipeFunction, preset: str | None, settings: Sequence[str]) -> str:
    """A recipe as YAML: the file itself where nothing is asked of it and it extends none, else its plain stages.

    Raises:
        RecipeError: it has mistakes.
    """
    if isinstance(source, Path) and not preset and not settings and EXTENDS not in (text := source.read_text("utf-8")):
        return text
    expanded = expand(source, preset, settings)
    if expanded.problems:
        raise RecipeError(str(source), expanded.problems)
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head_comment(source))
    return comment + as_yaml(expanded.tree)


def _called(recipe: RecipeFunction, preset: str | None, settings: Sequence[str]) -> Expanded:
    """The tree of a function; settings that are none of its parameters are laid over it."""
    own = [setting for setting in settings if setting.partition("=")[0] in recipe.parameters]
    arguments, problems = apply_settings({}, own)
    chosen = preset or next(iter(recipe.presets), "")
    if chosen and chosen not in recipe.presets:
        hint, names = suggestion(chosen, recipe.presets), ", ".join(recipe.presets) or "none"
        problems.append(f"{PRESETS}: no preset {chosen!r}{hint}; there are: {names}")
    elif chosen:
        arguments[PRESET] = chosen
    try:
        tree = validate_call(recipe.function)(**arguments)
    except ValidationError as error:
        problems += [f"set {'.'.join(map(str, item['loc']))}: {complaint(item)}" for item in error.errors()]
        tree = recipe.function()
    try:
        check_values(tree)
    except ValueError as error:
        raise RecipeError(recipe.name, [f"a value cannot be read: {error}"]) from None
    tree, more = apply_settings(tree, [setting for setting in settings if setting not in own])
    problems += more
    return Expanded(with_prompts_of(tree, problems), chosen, problems)


def _taken(file: Mapping[str, Any], expanded: Expanded) -> Iterator[str]:
    """A line on each stage of a file without short forms that has options of the defaults of what the file extends."""
    stages = file.get(_STAGES)
    if not isinstance(stages, Mapping) or {DEFAULTS, FOR} & {*file}:
        return
    added = {name for name, stage in stages.items() if isinstance(stage, Mapping) and "stage" in stage}
    if any(SYSTEM in stages[name] for name in added):
        return
    for name, own in expanded.own.items():
        options = list(_below(expanded.defaults[own["stage"]], own)) if name in added else []
        if options:
            reason = f"takes {', '.join(options)} from the `{DEFAULTS}` of a recipe that this one extends"
            yield f"{_STAGES}.{name}: {reason}; write your own, or null for none"


def _below(defaults: Mapping[str, Any], own: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of the options that a stage takes from defaults."""
    laid = lay_under(defaults, own)
    for key in defaults.keys() & laid.keys():
        if key not in own:
            yield f"{path}{key}"
        elif isinstance(defaults[key], Mapping) and isinstance(own[key], Mapping) and laid[key] != own[key]:
            yield from sorted(_below(defaults[key], own[key], f"{path}{key}."))


def _plain(tree: Mapping[str, Any], expanded: Expanded, order: RowOrder, checked: bool) -> dict[str, Any]:
    plain = Grids(expanded.origins, expanded.problems).unroll(tree)
    expanded.defaults = dict(_defaults(plain.pop(DEFAULTS, None), expanded, checked))
    systems = Systems(expanded.defaults.pop(SYSTEM, {}), order, expanded.origins, expanded.problems)
    if isinstance(stages := plain.get(_STAGES), Mapping):
        stages = {name: stage for name, stage in systems.expand(stages).items() if not is_removed(stage)}
        for name, stage in stages.items():
            verb = stage.get("stage") if isinstance(stage, Mapping) else None
            if isinstance(verb, str) and (defaults := expanded.defaults.get(verb)):
                expanded.own[name], stages[name] = stage, lay_under(defaults, stage)
        plain[_STAGES] = stages
    return plain


def _defaults(by_verb: Any, expanded: Expanded, checked: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The defaults of each verb, checked as far as they can be without a stage."""
    if is_removed(by_verb):
        return
    if not isinstance(by_verb, Mapping):
        expanded.problems.append(f"{DEFAULTS}: must map a verb to options of its stages")
        return
    known = [*(plugin_names(_STAGES) if checked else by_verb), SYSTEM]
    for verb, options in by_verb.items():
        path = f"{DEFAULTS}.{verb}"
        if checked and not_installed(_STAGES, str(verb)):
            continue  # the stages of this verb report what to install
        if verb not in known:
            hint = suggestion(str(verb), known)
            expanded.problems.append(f"{path}: no stage {verb!r}{hint}; one of: {', '.join(known)}")
        elif isinstance(options, Mapping) and "stage" in options:
            expanded.problems.append(f"{path}.stage: leave it out; the defaults are those of stage {verb!r}")
        elif isinstance(options, Mapping):
            yield verb, without_removed(options)
        elif not is_removed(options):
            expanded.problems.append(f"{path}: must be a mapping of options")


def unknown_options(expanded: Expanded) -> Iterator[tuple[str, ErrorDetails, type[BaseModel]]]:
    """Options that no stage has, of the verbs that the recipe has no stage of: path, mistake, class of options."""
    for verb in expanded.defaults.keys() - {own["stage"] for own in expanded.own.values()}:
        try:
            spec: type[BaseModel] = load_plugin(_STAGES, verb)
            spec.model_validate({"stage": verb, **expanded.defaults[verb]})
        except PluginError as error:
            expanded.problems.append(f"{DEFAULTS}.{verb}: {error}")
        except ValidationError as error:
            wrong = [item for item in error.errors() if item["type"] in _UNKNOWN]
            yield from ((f"{DEFAULTS}.{verb}", item, spec) for item in wrong)


def _depth(tree: Any, keys: Sequence[str]) -> int:
    """How many of the keys lead into a tree, one after the other."""
    for depth, key in enumerate(keys):
        if not isinstance(tree, Mapping) or key not in tree:
            return depth
        tree = tree[key]
    return len(keys)


def _reaches_into_short_forms(setting: str) -> bool:
    top, *rest = setting.partition("=")[0].split(".")
    inside = top == _STAGES and ("{" in "".join(rest) or rest[1:2] in ([SYSTEM], [FOR]))
    return inside or top in (DEFAULTS, FOR)


def parts(annotation: Any) -> Iterator[type[Any]]:
    """The classes with options of their own that stand in a type."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        yield annotation
    for inner in get_args(annotation):
        yield from parts(inner)
