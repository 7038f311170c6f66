"""Writes a plugin package whose tests pass as written: files of `templates/` with the plugin's names filled in."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from hardneg.errors import UsageError
from hardneg.registry import KINDS, suggestion

_SINGULAR = dict(zip(("dataset", "miner", "loss", "index", "reranker"), KINDS, strict=True))
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Writes the package `hardneg-NAME` into `folder`, which must be new or empty; returns the files.

    Raises:
        UsageError: the kind or the name is not one, or the folder holds something.
    """
    kind = _SINGULAR.get(kind, kind)
    if kind not in KINDS:
        known = ", ".join(_SINGULAR)
        raise UsageError(f"no kind of plugin is called {kind!r}{suggestion(kind, _SINGULAR)}; there are: {known}")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be a plugin's name: lower-case letters, digits and single hyphens, as in 'my-{kind}'"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already and is not an empty folder; choose another with --output")
    written = [folder / path for path in _paths(name)]
    for path, template in zip(written, _templates(kind), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(template).substitute(_words(kind, name)), encoding="utf-8")
    return written


def _paths(name: str) -> list[str]:
    module = name.replace("-", "_")
    source = f"src/hardneg_{module}"
    return ["pyproject.toml", "README.md", f"{source}/__init__.py", f"{source}/{module}.py", f"tests/test_{module}.py"]


def _templates(kind: str) -> list[str]:
    root = files("hardneg.cli") / "templates"
    names = ["pyproject.toml", "README.md", "package.py", f"{kind}.py", f"{kind}_test.py"]
    return [(root / f"{name}.template").read_text(encoding="utf-8") for name in names]


def _words(kind: str, name: str) -> dict[str, str]:
    singular = next(one for one, many in _SINGULAR.items() if many == kind)
    cls = "".join(part.capitalize() for part in name.split("-"))
    return {"kind": kind, "singular": singular, "name": name, "module": name.replace("-", "_"), "cls": cls}
