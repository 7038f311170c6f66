"""hardneg trains dense retrievers with hard negatives: `import hardneg as hn`, and every verb is a function.

What is public stands in the table below, and in `__init__.pyi` with its signatures; it is imported when it is asked
for. Lines that other packages bring are functions too.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

_PUBLIC = {
    "HardnegError": "hardneg.records.errors",
    "analyze": "hardneg.api.analyzing",
    "average": "hardneg.lines.functions",
    "bench": "hardneg.lines.functions",
    "diagnose": "hardneg.diagnosis.diagnose",
    "encode": "hardneg.lines.functions",
    "evaluate": "hardneg.lines.functions",
    "fuse": "hardneg.lines.functions",
    "index": "hardneg.lines.functions",
    "mine": "hardneg.lines.functions",
    "recommend": "hardneg.lines.functions",
    "rerank": "hardneg.lines.functions",
    "search": "hardneg.lines.functions",
    "start": "hardneg.api.starting",
    "train": "hardneg.lines.functions",
    "write_queries": "hardneg.lines.functions",
}
"""The module that holds each public name."""

_APART = {"browse": "hardneg-browse", "mteb_model": "hardneg-mteb", "push": "hardneg-hub"}
"""The package, of the folder `plugins`, that holds each of these names."""

_CALLED = {"recipe": "hardneg.api.recipes"}
"""Folders of the package that are called as well, such as `hardneg.recipe(...)`: the module that holds the function."""


def __getattr__(name: str) -> Any:
    if name in _APART:
        return _apart(name)
    if name in _CALLED:
        return import_module(f"hardneg.{name}")
    if name.startswith("_"):
        raise AttributeError(f"module 'hardneg' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC.get(name, "hardneg.lines.functions")), name)


def _apart(name: str) -> Any:
    module = _APART[name].replace("-", "_")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        from hardneg.records.errors import MissingDependency

        message = f"{name}: pip install ./plugins/{_APART[name]}, from a checkout of hardneg"
        raise MissingDependency(message) from None


def __dir__() -> list[str]:
    apart = [name for name, package in _APART.items() if find_spec(package.replace("-", "_"))]
    return sorted({*globals(), *_PUBLIC, *_CALLED, *apart})


class _Folder(ModuleType):
    """A folder of the package that has the name of a function: calling it calls that."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)

    @property
    def __wrapped__(self) -> Any:
        """The function, by which its signature is shown."""
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_CALLED[name]), name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """That of the function."""
        doc: str | None = self.__wrapped__.__doc__
        return doc


class _Package(ModuleType):
    """This package: the import of a folder that is called as well makes it callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Folder
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
