"""Writes a plugin package whose tests pass as written: files of `templates/` with the plugin's names filled in."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from hardneg.artifacts import disk_errors
from hardneg.cli.plugins import kind_of, singulars
from hardneg.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Writes the package `hardneg-NAME` into `folder`, which must be new or empty; returns the files.

    Raises:
        ArtifactError: the folder cannot be written.
        UsageError: the kind or the name is not one, or the folder holds something.
    """
    kind = kind_of(kind)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a plugin's name: lower-case letters, digits and single hyphens, as in {_usual(kind)!r}"
        )
    if keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be a plugin's name: it is a word of Python's own, and the plugin's module is named after "
            f"it; take another, such as {_usual(kind)!r}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already and is not an empty folder; choose another with --output")
    written = [folder / path for path in _paths(name)]
    with disk_errors(folder, "--output"):
        for path, template in zip(written, _templates(kind), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(template).substitute(_words(kind, name)), encoding="utf-8")
    return written


def _singular(kind: str) -> str:
    return next(one for one, many in singulars().items() if many == kind)


def _usual(kind: str) -> str:
    return f"my-{_singular(kind)}"


def _paths(name: str) -> list[str]:
    module = name.replace("-", "_")
    source = f"src/hardneg_{module}"
    return ["pyproject.toml", "README.md", f"{source}/__init__.py", f"{source}/{module}.py", f"tests/test_{module}.py"]


def _templates(kind: str) -> list[str]:
    root = files("hardneg.cli") / "templates"
    names = ["pyproject.toml", "README.md", "package.py", f"{kind}.py", f"{kind}_test.py"]
    return [(root / f"{name}.template").read_text(encoding="utf-8") for name in names]


def _words(kind: str, name: str) -> dict[str, str]:
    cls = "".join(part.capitalize() for part in name.split("-"))
    return {"kind": kind, "singular": _singular(kind), "name": name, "module": name.replace("-", "_"), "cls": cls}
