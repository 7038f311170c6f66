"""Reference pages made from the code when the site is built: commands, verbs, plugins, each with its options."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

VERBS = "hardneg.stages"
_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages to the site; mkdocs calls this."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {"commands": commands, "verbs": verbs, "plugins": plugins}
    return {name: "\n".join(lines()) + "\n" for name, lines in made.items()}


def commands() -> Iterator[str]:
    """Every command with its options, in the order of `hardneg --help`."""
    import typer

    from hardneg.cli.main import app

    yield "# Commands\n\nMade from the program's own help, which `hardneg COMMAND --help` prints.\n"
    yield from _command("hardneg", typer.main.get_command(app))


def _command(words: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _command(f"{words} {name}", inner)
        return
    yield f"## `{words}`\n\n{_plain(command.help or '')}\n"
    shown = [option for option in command.params if not getattr(option, "hidden", False)]
    rows = [(_names(option), _default(option), getattr(option, "help", "") or "") for option in shown]
    yield from _table(("option", "default", "meaning"), rows)


def _names(option: Any) -> str:
    words = ", ".join(option.opts) if option.opts[0].startswith("-") else (option.metavar or option.name.upper())
    return f"`{words}`" + (" (required)" if option.required else "")


def _default(option: Any) -> str:
    value = option.default
    return "" if value is None or callable(value) or value in ([], (), False) or option.required else f"`{value}`"


def verbs() -> Iterator[str]:
    """Every verb of a recipe with what it takes."""
    yield "# Verbs\n\nWhat a stage of a [recipe](../recipes.md) may say, made from the code.\n"
    for verb, spec in sorted(_specs().items()):
        yield f"## `{verb}`\n\nMakes: {spec.kind}.\n"
        head, meanings = _meanings(spec, spec.model_fields)
        yield f"{head}\n"
        rows = [
            (f"`{name}`", _type(field.annotation), _value(field), meanings.get(name, ""))
            for name, field in spec.model_fields.items()
            if name != "stage"
        ]
        yield from _table(("option", "type", "default", "meaning"), rows)


def _specs() -> dict[str, Any]:
    """The classes of all verbs by the verb."""
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group=VERBS)}


def _meanings(cls: type, names: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The docstring before the first `NAME: text` of a field, and each such text by its field, bases' first."""
    found: dict[str, str] = {}
    pattern = re.compile(rf"(?:^|(?<=[.\s]))({'|'.join(map(re.escape, names))}): ")
    for base in reversed(cls.__mro__):
        text = " ".join((base.__dict__.get("__doc__") or "").split())
        head, *rest = pattern.split(text)
        found |= {name: meaning.strip() for name, meaning in zip(rest[::2], rest[1::2], strict=True)}
    return head.strip(), found


def _type(annotation: Any) -> str:
    """A type in words: `Mapping[str, int] | None` is `mapping of whole number`."""
    origin, inner = get_origin(annotation), [item for item in get_args(annotation) if item is not type(None)]
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return ", ".join(f"`{item}`" for item in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_type, inner)))
    if origin in (list, tuple, set, frozenset, Sequence):
        return f"list of {' and '.join(_type(item) for item in inner if item is not ...)}"
    if origin is not None:
        return f"mapping of {_type(inner[-1])}"
    if hasattr(annotation, "model_fields"):
        return f"{{{', '.join(annotation.model_fields)}}}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _value(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value is None else f"`{value if isinstance(value, str | int | float) else _short(value)}`"


def _short(value: Any) -> str:
    said = value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
    return "its own defaults" if not said and hasattr(value, "model_dump") else str(said)


def plugins() -> Iterator[str]:
    """Every plugin that hardneg brings, with its options."""
    from hardneg.registry import KINDS, list_plugins, load_plugin, plugin_options

    yield "# Plugins\n\nWhat hardneg brings; `hardneg plugins list` shows what else is installed.\n"
    for kind in KINDS:
        yield f"## {kind.capitalize()}\n"
        for item in (item for item in list_plugins(kind) if item.package == "hardneg"):
            plugin = load_plugin(kind, item.name)
            head = re.split(r"\n(?:Args|Attributes|Options):", inspect.cleandoc(plugin.__doc__ or ""))[0]
            yield f"### `{item.name}`\n\n{head.strip()}\n"
            if hasattr(plugin, "__dataclass_fields__"):
                options = plugin_options(plugin)
                rows = [(f"`{o['name']}`", f"`{o['type']}`", _said(o["default"]), o["meaning"]) for o in options]
                yield from _table(("option", "type", "default", "meaning"), rows)


def _said(default: str) -> str:
    return f"`{default}`" if default else "required"


def _plain(text: str) -> str:
    return "\n\n".join(_example(part) for part in inspect.cleandoc(text).split("\n\n"))


def _example(part: str) -> str:
    found = re.match(r"Example: (.*)", " ".join(part.split()))
    return f"    {found[1]}" if found else part


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
    for row in rows:
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""
