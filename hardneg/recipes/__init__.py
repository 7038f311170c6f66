"""Recipes, from a file or function to the run folder; each module is imported when one of its names is first used."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand

# isort: off
if TYPE_CHECKING:  # a module after those that it imports
    from hardneg.recipes.language import *
    from hardneg.recipes.load import *
    from hardneg.recipes.plan import *
    from hardneg.recipes.execution import *
    from hardneg.recipes.lookahead import *
    from hardneg.recipes.run_folder import *

__getattr__ = partial(on_demand, __name__)
