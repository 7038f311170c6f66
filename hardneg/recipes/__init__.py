"""A recipe, from its file or function to its run folder; a module is imported when one of its names is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.recipes.execution import *
    from hardneg.recipes.language import *
    from hardneg.recipes.load import *
    from hardneg.recipes.lookahead import *
    from hardneg.recipes.plan import *
    from hardneg.recipes.run_folder import *


def __getattr__(name: str) -> Any:
    for module in ("language", "load", "plan", "lookahead", "run_folder", "execution") if name[0] != "_" else ():
        if hasattr(home := import_module(f"{__name__}.{module}"), name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
