"""`hardneg plugins`: what is installed, what each plugin can be told, and packages to begin one with."""

import keyword
import re
from dataclasses import asdict
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template

import typer

from hardneg.cli import completion
from hardneg.cli.console import say, say_answer
from hardneg.cli.options import JSON, output
from hardneg.cli.planned_work import store_outputs
from hardneg.records import UsageError
from hardneg.registry import SINGULARS, kind_of, list_plugins, load_plugin, plugin_options, plugin_text
from hardneg.store import Target, disk_errors

app = typer.Typer(
    help="List, show and write plugins: datasets, encoders, writers, miners, filters, losses, regularizers, indexes, "
    "rerankers, stages, analyses, engines.",
    no_args_is_help=True,
)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

KIND = typer.Argument(help=f"{', '.join(SINGULARS)}; or the plural.", autocompletion=completion.kinds)
_WRITTEN = {"dataset": "datasets", "loss": "losses", "miner": "miners", "stage": "stages"}


@app.command("list")
def list_(
    kind: str = typer.Argument("", metavar="[KIND]", help="Only this kind.", autocompletion=completion.kinds),
    as_json: bool = JSON,
) -> None:
    """List the installed plugins; nothing is imported.

    Example: hardneg plugins list losses
    """
    plugins = list_plugins(kind_of(kind) if kind else None)
    width = max((len(plugin.name) for plugin in plugins), default=0)
    lines = []
    for group, members in groupby(plugins, key=lambda plugin: plugin.kind):
        lines.append(group)
        for plugin in members:
            note = f"   broken: {plugin.problem}" if plugin.problem else ""
            lines.append(f"  {plugin.name:<{width}}  {plugin.package} {plugin.package_version}{note}")
    say_answer([asdict(plugin) for plugin in plugins], lines, as_json)


@app.command()
def show(
    kind: str = KIND, name: str = typer.Argument(help="The plugin's name.", autocompletion=completion.named_plugins)
) -> None:
    """Show what a plugin does, its options with types and defaults, and where it comes from.

    Example: hardneg plugins show loss star
    """
    kind = kind_of(kind)
    plugin = load_plugin(kind, name)
    origin = next(item for item in list_plugins(kind) if item.name == name)
    say(f"{name}  ({kind}, version {plugin.version})")
    options = plugin_options(plugin)
    say(f"\n{plugin_text(plugin)}\n\n{'Options:' if options else 'It has no options.'}")
    for option in options:
        default = f" = {option['default']}" if option["default"] else " (required)"
        say(f"  {option['name']}: {option['type']}{default}")
        if option["meaning"]:
            say(f"      {option['meaning']}")
    say(f"\nSource: {origin.package} {origin.package_version}, {origin.target}")


@app.command()
def new(
    kind: str = typer.Argument(help=f"{', '.join(_WRITTEN)}."),
    name: str = typer.Argument(help="The plugin's name: lower-case letters, digits and hyphens."),
    output: Path | None = output("The folder to write; default hardneg-NAME.", None),
) -> None:
    """Write a package with a working plugin and its tests, to change into your own.

    Example: hardneg plugins new loss my-loss --output my-loss
    """
    folder = output or Path(f"hardneg-{name}")
    store_outputs("plugins new", [Target(folder, folder=True)], [], overwrite=True).check()
    for path in write_package(kind, name, folder):
        say(path)
    say(f"\nNext: pip install -e '{folder}[dev]' && pytest {folder}", err=True)


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Writes the package `hardneg-NAME` into `folder`, which must be new or empty; returns the files.

    Raises:
        ArtifactError: the folder cannot be written.
        UsageError: the kind or the name is not one, or the folder holds something.
    """
    kind, others = kind_of(kind), list_plugins(kind_of(kind))
    if kind not in _WRITTEN.values():
        known = f"{', '.join(_WRITTEN)}; the page `Write a plugin` says what the others have"
        raise UsageError(f"no package is written for {kind}; there are: {known}")
    singular = next(one for one, many in _WRITTEN.items() if many == kind)
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        form = f"lower-case letters, digits and single hyphens, and no word of Python's own, as in 'my-{singular}'"
        raise UsageError(f"{name!r} cannot be a plugin's name: {form}")
    if claimed := {plugin.package for plugin in others if plugin.name == name} - {f"hardneg-{name}"}:
        raise UsageError(f"{name!r}: {', '.join(sorted(claimed))} has a {singular} of that name; take another")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already and is not an empty folder; choose another with --output")
    module, cls = name.replace("-", "_"), "".join(part.capitalize() for part in name.split("-"))
    words = {"kind": kind, "singular": singular, "name": name, "module": module, "cls": cls}
    written = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"src/hardneg_{module}/__init__.py": "package.py",
        f"src/hardneg_{module}/{module}.py": f"{kind}.py",
        f"tests/test_{module}.py": f"{kind}_test.py",
    }
    with disk_errors(folder, "--output"):
        for path, template in written.items():
            source = files("hardneg.cli") / "templates" / f"{template}.template"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(Template(source.read_text("utf-8")).substitute(words), encoding="utf-8")
    return [folder / path for path in written]
