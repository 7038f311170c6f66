"""The reference, generated from the code when the site is built: commands, verbs, plugins, each with its options."""

import dataclasses
import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

VERB_KIND = "stages"
PAPERS = "plugins/hardneg-papers/docs"
"""Pages of a package that the site has beside those of `docs`."""
_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def on_config(config: Any) -> Any:
    """Links the repository at $REPOSITORY_URL, and lists a page for each command; mkdocs calls this."""
    if address := os.environ.get("REPOSITORY_URL"):
        config["repo_url"], config["repo_name"] = address, address.rstrip("/").rpartition("/")[2]
    [part] = [item["Reference"] for item in config["nav"] if "Reference" in item]
    [listed] = [item for item in part if item.get("Commands")]
    listed["Commands"] = [{"All commands": listed["Commands"]}, *_navigation(dict(_commands()))]
    return config


def _navigation(known: Mapping[tuple[str, ...], Any]) -> Iterator[dict[str, Any]]:
    """The pages of the commands; those of a group such as `recipe` under its name."""
    for first, inner in groupby(known, key=lambda words: words[0]):
        pages = [{" ".join(words): f"reference/{_page(words)}.md"} for words in inner]
        yield {first: pages} if len(pages) > 1 else pages[0]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrites links between pages of the core and of packages as the site has them; mkdocs calls this.

    Links to packages' READMEs lead to the repository at $REPOSITORY_URL, or become plain text. `install.md` gets the
    line that clones it.
    """
    readme = rf"[\1]({config['repo_url']}/blob/main/plugins/\2)" if config["repo_url"] else r"\1"
    markdown = re.sub(r"\[([^]]*)\]\(\.\./plugins/([\w-]+/README\.md(?:#[\w-]+)?)\)", readme, markdown)
    markdown = (
        re.sub(rf"\]\(\.\./{PAPERS}/", "](", markdown)
        .replace("](../../../../docs/", "](../")
        .replace("](../../../docs/", "](")
    )
    if page.file.src_uri != "install.md" or not config["repo_url"]:
        return markdown
    clone = f"    git clone {config['repo_url']} && cd {config['repo_name']}\n"
    return re.sub(r"^(?=    pip install )", clone, markdown, count=1, flags=re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages to the site; mkdocs calls this."""
    from mkdocs.structure.files import File

    folder = Path(__file__).parents[1] / PAPERS
    for path in sorted(folder.rglob("*.*")):
        name = path.relative_to(folder).as_posix()
        files.append(File(name, str(folder), config["site_dir"], config["use_directory_urls"]))
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {
        "commands": commands,
        "verbs": verbs,
        "plugins": plugins,
        "plugin-module": names_of_plugin_module,
        "python": functions,
    }
    found = {name: "\n".join(lines()) + "\n" for name, lines in made.items()}
    return found | {_page(words): "\n".join(_command(words, command)) + "\n" for words, command in _commands()}


def commands() -> Iterator[str]:
    """A line for each command, in the order of `hardneg --help`."""
    yield "# Commands\n\nEach command has a page with its options, the same as `hardneg COMMAND --help`.\n"
    rows = [(f"[`hardneg {' '.join(words)}`]({_page(words)}.md)", _summary(command)) for words, command in _commands()]
    yield from _table(("command", "what it does"), rows)


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that is not hidden, by its words."""
    import typer

    from hardneg.cli.main import app

    yield from _below((), typer.main.get_command(app))


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name in command.list_commands(None):
        if not (inner := command.get_command(None, name)).hidden:
            yield from _below((*words, name), inner)


def _page(words: tuple[str, ...]) -> str:
    return f"commands/{'/'.join(words)}"


def _summary(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0]


def _command(words: tuple[str, ...], command: Any) -> Iterator[str]:
    yield f"# `hardneg {' '.join(words)}`\n\n{_plain(command.help or '')}\n"
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
    """Every verb of a recipe with its options, then the nested options that several verbs share."""
    yield "# Verbs\n\nWhat a stage of a [recipe](../recipes.md) can do, and its options. Generated from the code.\n"
    groups: dict[type, dict[str, None]] = {}
    for verb, spec in sorted(_specs().items()):
        yield f"## `{verb}`\n\nMakes: {spec.artifact_type}.\n"
        yield from _fields(spec)
        for name, field in spec.model_fields.items():
            for group in _groups(field.annotation):
                groups.setdefault(group, {})[f"`{name}` of `{verb}`"] = None
    yield "## Nested options\n"
    for group, places in groups.items():
        yield f"### {', '.join(places)}\n"
        yield from _fields(group)


def _fields(cls: Any) -> Iterator[str]:
    """The options of a class: its description, then a table of its fields."""
    from hardneg.registry import plugin_options, plugin_text

    head = ("option", "type", "default", "meaning")
    if not hasattr(cls, "model_fields"):
        rows = [
            (f"`{row['name']}`", f"`{row['type']}`", _said(row["default"]), row["meaning"])
            for row in plugin_options(cls)
        ]
        yield f"{plugin_text(cls)}\n"
        yield from _table(head, rows)
        return
    meanings = {row["name"]: row["meaning"] for row in plugin_options(cls)}
    fields = {name: field for name, field in cls.model_fields.items() if name != "stage"}
    yield f"{plugin_text(cls)}\n"
    yield from _table(
        head, [(f"`{name}`", _asked(field), _value(field), meanings.get(name, "")) for name, field in fields.items()]
    )


def _groups(annotation: Any) -> Iterator[type]:
    """The classes of options within an annotation."""
    for inner in get_args(annotation):
        yield from _groups(inner)
    known = hasattr(annotation, "model_fields") or dataclasses.is_dataclass(annotation)
    if inspect.isclass(annotation) and known and annotation.__name__ != "PluginSetting":
        yield annotation


def _specs() -> dict[str, Any]:
    """The classes of all verbs by the verb."""
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group=f"hardneg.{VERB_KIND}")}


def _asked(field: Any) -> str:
    """A field's type; of a reference what the stage that it names makes, of a plugin its kind."""
    for mark in field.metadata:
        if type(mark).__name__ == "Reference":
            many = "mapping of " if get_origin(field.annotation) is dict else ""
            return f"{many}stage that makes {' or '.join(mark.artifact_types)}"
        if type(mark).__name__ == "PluginKind":
            return f"[plugin](plugins.md#{mark.kind})"
    return _type(field.annotation)


def _type(annotation: Any) -> str:
    """A type in words: `Mapping[str, int] | None` is `mapping of whole number`."""
    from hardneg.registry import plugin_options

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
    if any(_groups(annotation)):
        names = [row["name"] for row in plugin_options(annotation)]
        return f"{{{', '.join(names)}}}" if len(names) < 6 else "[options](#nested-options)"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _value(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or any(_groups(type(value))) or value in ({}, ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def plugins() -> Iterator[str]:
    """Every installed plugin with its options; those of verbs have a page of their own."""
    from hardneg.registry import CHOICES, KINDS, list_plugins, load_plugin, plugin_options, plugin_text

    yield "# Plugins\n\nThe plugins that were installed when this site was built. Those of other packages are marked.\n"
    for kind in (*KINDS, *CHOICES):
        yield f"## {kind.capitalize()}\n"
        for item in list_plugins(kind):
            plugin = load_plugin(kind, item.name)
            origin = "" if item.package == "hardneg" else f"From the package {item.package}. "
            yield f"### `{item.name}`\n\n{origin}{plugin_text(plugin)}\n"
            if kind != VERB_KIND:
                options = plugin_options(plugin)
                rows = [(f"`{o['name']}`", f"`{o['type']}`", _said(o["default"]), o["meaning"]) for o in options]
                yield from _table(("option", "type", "default", "meaning"), rows)


def names_of_plugin_module() -> Iterator[str]:
    """Every name of `hardneg.plugin`, by the room that it is from, with the first sentence of its docstring."""
    from hardneg import plugin, type_checkers_imports

    yield "# hardneg.plugin\n\nAll that a [plugin](../write-a-plugin.md) may import, besides `hardneg.testing`.\n"
    homes = {
        name: f"{home}.{called}".split(".")[1]
        for name, (home, called) in type_checkers_imports(plugin.__name__).items()
    }
    rooms = sorted({*homes.values()})
    for room in rooms:
        yield f"## {room}\n"
        names = sorted(name for name, home in homes.items() if home == room)
        said = {}
        for name, each in ((name, getattr(plugin, name)) for name in names):
            text = inspect.getdoc(each) if callable(each) or inspect.ismodule(each) else ""
            within = f" It has {', '.join(_public(each))}." if inspect.ismodule(each) and _public(each) else ""
            said[name] = " ".join((text or "").split("\n\n")[0].split()) + within
        yield from _table(("name", "what it is"), [(f"`{name}`", said[name]) for name in names])


def _public(module: ModuleType) -> list[str]:
    """The public classes and functions of a module, or of a package's modules."""
    homes = {name: getattr(each, "__module__", None) or "" for name, each in vars(module).items()}
    own = (name for name, home in homes.items() if home.startswith(module.__name__))
    return sorted(f"`{name}`" for name in own if name[0] != "_")


def functions() -> Iterator[str]:
    """Every public function of the package with its arguments, then results."""
    import hardneg
    from hardneg.functions import evaluate, recipes, results

    yield "# Python\n\nGenerated from the code of `import hardneg as hn`. [How to use it](../python.md).\n"
    apart = {*hardneg._APART} & {*dir(hardneg)}  # those of packages that are installed
    public = {name: getattr(hardneg, name) for name in sorted({*hardneg.type_checkers_imports("hardneg"), *apart})}
    for name, function in public.items():
        if inspect.isfunction(function):
            yield f"## `hardneg.{name}`\n\n```python\n{name}{_signature(function)}\n```\n\n{_docstring(function)}\n"
    yield "## Results\n"
    made = [results.MinedNegatives, results.RankedRun, results.BuiltIndex, results.TrainedModel, evaluate.Evaluation]
    made += [recipes.AnalysisResult]
    for kind in (*made, recipes.ChosenRecipe, recipes.RecipePlan, recipes.RunFolder):
        yield f"### `{kind.__name__}`\n\n{_docstring(kind)}\n"
        members = {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}
        rows = [(f"`{_called(name, each)}`", _first(each)) for name, each in members.items() if _first(each)]
        yield from _table(("member", "meaning"), rows)


def _signature(function: Any) -> str:
    """The arguments, a line each."""
    asked = inspect.signature(function)
    lines = []
    for each in asked.parameters.values():
        star = {each.VAR_KEYWORD: "**", each.VAR_POSITIONAL: "*"}.get(each.kind, "")
        if each.kind == each.KEYWORD_ONLY and "*," not in lines and not any(line.startswith("*") for line in lines):
            lines.append("*,")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        lines.append(f"{star}{each.name}{default},")
    return "(\n" + "".join(f"    {line}\n" for line in lines) + ")"


def _called(name: str, member: Any) -> str:
    """A member as it is used: a method with the names of its arguments."""
    if not inspect.isfunction(member):
        return name
    return f"{name}({', '.join(list(inspect.signature(member).parameters)[1:])})"


def _first(member: Any) -> str:
    """The first sentence of a docstring of this package; of other members none."""
    known = inspect.isfunction(member) or isinstance(member, property)
    return (inspect.getdoc(member) or "").split("\n\n")[0] if known else ""


def _docstring(of: Any) -> str:
    """A docstring as Markdown: its sections as lists."""
    lines: list[str] = []
    for line in (inspect.getdoc(of) or "").splitlines():
        if line.endswith(":") and line[:-1] in ("Args", "Raises"):
            lines.append(f"{line}\n")
        elif line.startswith("        "):
            lines.append(f"  {line.strip()}")
        elif line.startswith("    "):
            lines.append(f"- {line.strip()}")
        else:
            lines.append(line)
    return "\n".join(lines)


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
