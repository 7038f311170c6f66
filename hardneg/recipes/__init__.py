"""Recipes, from a file or function to the run folder; a module is imported when one of its names is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.recipes.execution import *
    from hardneg.recipes.language import *
    from hardneg.recipes.load import *
    from hardneg.recipes.lookahead import *
    from hardneg.recipes.plan import *
    from hardneg.recipes.run_folder import *

_NAMES = {
    "execution": "Options Outcome Watcher execute usage",
    "language": "RecipeFunction apply_settings as_yaml default_folder expand find_recipe head_comment maker merge "
    "named_recipes parse_setting parsed plain_text preset_names read_tree recipe_tree shipped_recipes",
    "load": "Recipe check_recipe load_recipe",
    "lookahead": "Estimate Need absent check_packages estimate needs no_room packages",
    "plan": "Plan Step cached explain flat make_plan",
    "run_folder": "COMMAND OpenedIndex PublishedIndex artifacts_of inputs_of lock_content names next_steps publish "
    "published_indexes read_lock",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
