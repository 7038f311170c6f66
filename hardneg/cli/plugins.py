"""`hardneg plugins`: what is installed, and what each plugin can be told."""

from pathlib import Path

import typer

from hardneg.cli import completion
from hardneg.cli.options import WRITTEN, renaming
from hardneg.cli.printing import JSON, say, say_json
from hardneg.errors import UsageError

app = typer.Typer(
    help="What is installed: datasets, miners, losses, indexes, rerankers, stages, analyses.", no_args_is_help=True
)


KIND = typer.Argument(
    help="dataset, miner, loss, index, reranker, stage or analysis; the plural means the same.",
    autocompletion=completion.kinds,
)


def singulars() -> dict[str, str]:
    """Kinds of plugins by their names in the singular."""
    from hardneg.registry import KINDS

    return dict(zip(("dataset", "miner", "loss", "index", "reranker", "stage", "analysis"), KINDS, strict=True))


def kind_of(word: str) -> str:
    """The kind that a word names.

    Raises:
        UsageError: it names none.
    """
    from hardneg.registry import KINDS, suggestion

    known = singulars()
    kind = known.get(word, word)
    if kind not in KINDS:
        raise UsageError(
            f"no kind of plugin is called {word!r}{suggestion(word, known)}; there are: {', '.join(known)}"
        )
    return kind


@app.command("list")
def list_(
    kind: str = typer.Argument("", metavar="[KIND]", help="Only this kind.", autocompletion=completion.kinds),
    as_json: bool = JSON,
) -> None:
    """List the installed plugins; nothing is imported.

    Example: hardneg plugins list losses
    """
    from dataclasses import asdict

    from hardneg.registry import list_plugins

    found = list_plugins(kind_of(kind) if kind else None)
    if as_json:
        say_json([asdict(plugin) for plugin in found], indent=1)
        return
    width = max((len(plugin.name) for plugin in found), default=0)
    for group in dict.fromkeys(plugin.kind for plugin in found):
        say(group)
        for plugin in (plugin for plugin in found if plugin.kind == group):
            note = f"   broken: {plugin.problem}" if plugin.problem else ""
            say(f"  {plugin.name:<{width}}  {plugin.package} {plugin.package_version}{note}")


@app.command()
def show(
    kind: str = KIND, name: str = typer.Argument(help="The plugin's name.", autocompletion=completion.named_plugins)
) -> None:
    """Show what a plugin does, its options with types and defaults, and where it comes from.

    Example: hardneg plugins show loss star
    """
    from hardneg.plugin_help import plugin_options, plugin_text
    from hardneg.registry import list_plugins, load_plugin

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


@app.command(cls=renaming({"--out": "--output"}))
def new(
    kind: str = KIND,
    name: str = typer.Argument(help="The plugin's name: lower-case letters, digits and hyphens."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="The folder to write; default hardneg-NAME.", rich_help_panel=WRITTEN
    ),
) -> None:
    """Write a package with a plugin that works and with its tests, to change into your own.

    Example: hardneg plugins new loss my-loss --output my-loss
    """
    from hardneg.cli.outputs import Target, store_outputs
    from hardneg.cli.scaffold import write_package

    folder = output or Path(f"hardneg-{name}")
    store_outputs("plugins new", [Target(folder, folder=True)], [], overwrite=True).check()
    for path in write_package(kind, name, folder):
        say(path)
    say(f"\nNext: pip install -e '{folder}[dev]' && pytest {folder}", err=True)
