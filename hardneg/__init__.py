"""hardneg trains dense retrievers with hard negatives: `import hardneg as hn`, and every verb is a function.

What is public stands in the table below and is imported when it is asked for.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.api.analyzing import analyze as analyze
    from hardneg.api.evaluation import evaluate as evaluate
    from hardneg.api.fusing import fuse as fuse
    from hardneg.api.mining import mine as mine
    from hardneg.api.recipes import recipe as recipe
    from hardneg.api.recommending import recommend as recommend
    from hardneg.api.searching import encode as encode
    from hardneg.api.searching import index as index
    from hardneg.api.searching import rerank as rerank
    from hardneg.api.searching import search as search
    from hardneg.api.searching import train as train
    from hardneg.browse.calling import browse as browse
    from hardneg.errors import HardnegError as HardnegError
    from hardneg.hub.push import push as push
    from hardneg.mteb_search.model import mteb_model as mteb_model

__version__ = "0.1.0"

_PUBLIC = {
    "HardnegError": "hardneg.errors",
    "analyze": "hardneg.api.analyzing",
    "encode": "hardneg.api.searching",
    "evaluate": "hardneg.api.evaluation",
    "fuse": "hardneg.api.fusing",
    "index": "hardneg.api.searching",
    "mine": "hardneg.api.mining",
    "mteb_model": "hardneg.mteb_search.model",
    "push": "hardneg.hub.push",
    "recommend": "hardneg.api.recommending",
    "rerank": "hardneg.api.searching",
    "search": "hardneg.api.searching",
    "train": "hardneg.api.searching",
}
"""The module that holds each public name."""

_CALLED = {"browse": "hardneg.browse.calling", "recipe": "hardneg.api.recipes"}
"""Folders of the package that are called as well, such as `hardneg.recipe(...)`: the module that holds the function."""


def __getattr__(name: str) -> Any:
    if name in _CALLED:
        return import_module(f"hardneg.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'hardneg' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_CALLED})


class _Folder(ModuleType):
    """A folder of the package that has the name of a function: calling it calls that."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_CALLED[name]), name)(*given, **named)


class _Package(ModuleType):
    """This package: the import of a folder that is called as well makes it callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Folder
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
