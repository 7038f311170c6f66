"""Public names of `hardneg` and `hardneg.plugin`; flags and printing belong to the command line."""

import ast
import inspect
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import house
import pytest
from environments import ROOT

import hardneg
from hardneg import plugin
from hardneg.functions.arguments import arg_of

PUBLIC = hardneg.type_checkers_imports("hardneg")


def imported_by(program: str) -> set[str]:
    """The modules that a program has imported beside those that an interpreter has at its start."""
    told = f"import sys; before = set(sys.modules)\n{program}\nfound = set(sys.modules) - before\nprint(*found)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_imports_nothing_but_the_lightest() -> None:
    found = imported_by("import hardneg; dir(hardneg)")
    assert {name for name in found if name.startswith("hardneg")} == {"hardneg"}
    assert {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) == {"hardneg"}
    assert len(found) < 50
    found = imported_by("import hardneg.plugin")
    assert {name for name in found if name.startswith("hardneg.")} == {"hardneg.plugin"}


def test_each_public_name_is_listed() -> None:
    assert {*PUBLIC} <= {*dir(hardneg)} and len(PUBLIC) > 12


FREE = {"analyze": ["fields"]}
"""Functions that take arguments by names which nobody can list, and which: those that any package may bring."""


@pytest.mark.parametrize("name", sorted({*PUBLIC} - {"HardnegError"}))
def test_a_notebook_sees_every_argument_and_what_it_is(name: str) -> None:
    """Beside its type, or in the docstring."""
    function = getattr(hardneg, name)
    assert f"def {name}(" in inspect.getsource(function)
    parameters = inspect.signature(function).parameters
    assert [each.name for each in parameters.values() if each.kind == each.VAR_KEYWORD] == FREE.get(name, [])
    assert not [each for each in parameters.values() if each.kind == each.VAR_POSITIONAL]
    section = (inspect.getdoc(function) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    said = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
    assert [each for each in parameters if each not in said and arg_of(parameters[each].annotation) is None] == []


def test_whatever_takes_shared_arguments_spells_them_out() -> None:
    """Functions that are not public too, such as the methods of a recipe, and the classes of the trainer."""
    unpacking = [
        (f"{path}:{node.lineno}", [ast.unparse(each).rpartition(".")[2] for each in node.decorator_list])
        for path, tree in house.TREES.items()
        for node in house.functions(tree)
        if node.args.kwarg is not None and "Unpack[" in ast.unparse(node.args.kwarg.annotation or ast.Constant(""))
    ]
    assert len(unpacking) > 3
    assert [at for at, decorators in unpacking if "spelled_out" not in decorators] == []
    run = inspect.signature(hardneg.load_recipe("star-passage").run)
    assert list(run.parameters)[:5] == ["output", "until", "force", "overwrite", "settings"]


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'mines'"):
        hardneg.mines  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'StoredNothing'"):
        plugin.StoredNothing  # noqa: B018


def test_the_short_path_leads_to_the_trainers() -> None:
    from hardneg.integrations.adore_loss import AdoreLoss
    from hardneg.integrations.refresher import RefreshedNegatives
    from hardneg.trainer import AdoreLoss as Loss, RefreshedNegatives as Negatives

    assert (Loss, Negatives) == (AdoreLoss, RefreshedNegatives)


def test_the_module_pyserini_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["hardneg.pyserini", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_module("hardneg.pyserini", run_name="__main__")
    assert "in Pyserini." in capsys.readouterr().out


def test_the_version_is_the_same_wherever_it_stands():
    assert f"\nversion: {hardneg.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    packages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("plugins/hardneg-*/pyproject.toml"))
    assert {*re.findall(r'^version = "(.*)"$', packages, re.MULTILINE)} == {hardneg.__version__}
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {hardneg.__version__}\n" in changes
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert {*re.findall(r"hardneg-([\d.]+)-py3", pages)} == {hardneg.__version__}


def imported_in(path: Path) -> set[str]:
    """The modules of hardneg that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    return {name for name in named if name.partition(".")[0] == "hardneg"}


def test_packages_of_plugins_import_hardneg_plugin_alone() -> None:
    files = [*ROOT.glob("plugins/*/src/**/*.py")]
    assert len(files) > 40
    allowed = {"hardneg.plugin", "hardneg.testing"}
    assert {str(path): found for path in files if (found := imported_in(path) - allowed)} == {}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    taken = {ast.unparse(node) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name in taken if re.fullmatch(r"h[np]\.\w+", name)} <= {
        f"{short}.{name}" for short in ("hn", "hp") for name in plugin.__all__
    }


def test_templates_of_new_packages_import_hardneg_plugin_alone() -> None:
    files = [*ROOT.glob("hardneg/cli/templates/*.py.template")]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if " hardneg." in line]
    imports = [line.split()[1] for line in lines if line.split()[0] in ("from", "import")]
    assert len(imports) > 8
    assert {name for name in imports if not name.startswith(("hardneg.plugin", "hardneg.testing"))} == set()


def test_plugin_lists_what_it_imports_and_finds_it() -> None:
    assert sorted(plugin.__all__) == sorted(hardneg.type_checkers_imports("hardneg.plugin"))
    assert [name for name in plugin.__all__ if getattr(plugin, name) is None] == []


BESIDE = {
    f"{path.parent.name}/{path.name}": ast.parse(path.read_text("utf-8"))
    for path in (Path(house.__file__).parents[1] / "plugins").glob("*/src/**/*.py")
}
"""The modules of the packages in `plugins/`."""


def flags(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, but for docstrings, that have a flag; values in them are written as `x`."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "x" for each in parts)
        if node not in docstrings and re.search(r"(?<![\w!-])--[a-z]", text):
            yield text


def test_flags_are_named_by_the_command_line_alone() -> None:
    """Below it errors name arguments, which a command renders as flags and a function as they are."""
    below = {path: tree for path, tree in house.TREES.items() if house.room(path) not in {"cli", "testing"}}
    lines = [f"{path}: {text}" for path, tree in {**below, **BESIDE}.items() for text in flags(tree)]
    lines = [line for line in lines if "/command.py: " not in line]  # the commands of packages
    assert [line for line in lines if not any(other in line for other in PROGRAMS)] == []
    for text in ("--split", "give `--split`", "'--split'", "(--split)", "split/--split"):
        assert [*flags(ast.parse(f"raise Error({text!r})"))] == [text]
    assert [*flags(ast.parse("raise Error(f'--{name} is wrong')"))] == ["--x is wrong"]
    assert [*flags(ast.parse('"`--split`"\nx = "a -- b, <!-- c -->, well--known"'))] == []


PROGRAMS = (
    "indexes/lucene.py",
    "--ink: ",
    "hardneg artifacts check",
    " --preset ",
    "recipes/language.py:  --set ",
    "hardneg browse",
    "hardneg evaluate --run",
    "pip install --force-reinstall",
    "report/content.py: ",
)
"""Options of other programs, variables of a page, and whole commands to copy."""


def printing(tree: ast.Module) -> Iterator[str]:
    """Where a module prints, or has the standard output at hand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "pprint", "typer.echo", "click.echo"):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.__stdout__"):
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module in ("sys", "pprint", "builtins"):
            yield from {each.name for each in node.names} & {"stdout", "pprint", "print"}


def test_only_commands_print() -> None:
    prints = {path: [*printing(tree)] for path, tree in house.TREES.items() if house.room(path) != "cli"}
    assert {path: lines for path, lines in prints.items() if lines} == {}
    assert [*printing(ast.parse("print(1)\nsys.stdout.write('')\nfrom sys import stdout\ntyper.echo('')"))]


def names_of(room: str) -> set[str]:
    """The names of a package of hardneg that are there whatever else is imported."""
    body = house.TREES[f"{room}/__init__.py"].body
    by_need = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    found = (
        {*hardneg.type_checkers_imports(f"hardneg.{room}")} if by_need and import_module(f"hardneg.{room}") else set()
    )
    for node in (*body, *by_need):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= {name for name in dir(import_module(str(node.module))) if not name.startswith("_")}
        found |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} | {getattr(node, "name", "")}
    return found


def test_modules_take_of_a_package_what_it_has_without_other_imports() -> None:
    """An attribute that is a module, and is there only after something else imported it, depends on the order."""
    taken = set[tuple[str, str]]()
    for tree in [*house.TREES.values(), *BESIDE.values()]:
        nodes = [*ast.walk(tree)]
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "hardneg"]
        rooms = {each.asname or each.name: each.name for node in imports for each in node.names}
        parts = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
        taken |= {(rooms[node.value.id], node.attr) for node in parts if node.value.id in rooms}  # type: ignore[attr-defined]
    taken = {(room, name) for room, name in taken if f"{room}/__init__.py" in house.TREES}
    assert len(taken) > 40 and {(room, name) for room, name in taken if name not in names_of(room)} == set()
