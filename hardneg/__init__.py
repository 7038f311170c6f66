"""Train dense retrievers with hard negatives. The functions of this module are imported on first use."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.functions.evaluate import evaluate as evaluate
    from hardneg.functions.mine import mine as mine, train as train, write_queries as write_queries
    from hardneg.functions.recipes import analyze as analyze, load_recipe as load_recipe
    from hardneg.functions.search import (
        encode as encode,
        fuse as fuse,
        index as index,
        rerank as rerank,
        search as search,
    )
    from hardneg.functions.starting import start as start
    from hardneg.records import HardnegError as HardnegError

__version__ = "0.2.0"

_APART = {
    **dict.fromkeys(("bench", "diagnose", "recommend"), "hardneg-advice"),
    "browse": "hardneg-browse",
    "mteb_model": "hardneg-mteb",
    "push": "hardneg-hub",
}
"""The package under `plugins` that provides each name."""


@cache
def type_checkers_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return, for each name that a module imports under TYPE_CHECKING, its source module and its name there.

    For `import *`, the key is the name of the source module.
    """
    import ast

    source = sys.modules[module].__spec__.loader.get_source(module)  # type: ignore[union-attr]
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [
        (node.module or "", alias) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return {home if each.name == "*" else each.asname or each.name: (home, each.name) for home, each in imports}


def on_demand(module: str, name: str) -> Any:
    """Import and return the object that a module imports as `name`, or by `import *`, under TYPE_CHECKING.

    Packages use it as `__getattr__ = partial(on_demand, __name__)`. Raises AttributeError for unknown names.
    """
    known = type_checkers_imports(module)
    if name in known:
        home, called = known[name]
        value = None if home == module else getattr(import_module(home), called, None)
        return import_module(f"{home}.{called}") if value is None else value
    for home in (home for home, called in known.values() if called == "*" and not name.startswith("_")):
        if hasattr(found := import_module(home), name):
            return getattr(found, name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    if name not in _APART:
        return on_demand(__name__, name)
    module = _APART[name].replace("-", "_")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    from hardneg.records import MissingDependency
    from hardneg.registry import install_command

    raise MissingDependency(f"{name} is not installed; run {install_command(_APART[name])}")


def __dir__() -> list[str]:
    apart = [name for name, package in _APART.items() if find_spec(package.replace("-", "_"))]
    return sorted({*globals(), *type_checkers_imports(__name__), *apart})
