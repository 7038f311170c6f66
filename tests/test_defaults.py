"""A default is one number in one place: of a field or a parameter, by whatever name it is imported."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import house
import yaml

from hardneg.recipes import shipped_recipes
from hardneg.runtime import SEED

PLUGINS = [(source, path) for source in house.PACKAGE.parent.glob("plugins/*/src") for path in source.rglob("*.py")]
TREES = {f"hardneg/{path}": tree for path, tree in house.TREES.items()}
TREES |= {path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for source, path in PLUGINS}
MODULES = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in TREES}

PLAIN = {0, 1}
"""Numbers that choose nothing: none, all, the first, the scores as they are."""

DIFFERENT = {
    ("block", 4096): "texts of which the vectors, or the weights, fill a file",
    ("count", 4): "passages of a document; negatives of a query",
    ("count", 50): "negatives of simans; of an example that users copy",
    ("count", 200): "documents that are drawn; queries on an exported page",
    ("deadline", 600.0): "of two packages that know nothing of each other",
    ("depth", 10): "of nDCG@10; the lists that positives' ranks are compared in; examples that users copy",
    ("depth", 20): "of a pool while a model trains; of lists that a language model judges",
    ("depth", 50): "of lists that second scores test; of the filters that an analysis measures",
    ("depth", 100): "of lists that are kept; the passages that a reader reads",
    ("depth", 200): "that negatives are chosen from; K of STAR and ADORE's Table 1",
    ("dev_share", 0.1): "a stage's, and in its function's signature, which has to be the same",
    ("examples", 5): "queries of a filter; wins and losses of two runs",
    ("length", 512): "tokens of a segment; of ELECTRA's inputs",
    ("negatives", 8): "a file's and a table's, in signatures that editors show",
    ("seed", 0): "what no recipe's seed changes; ELECTRA's first weights of a layer",
    ("test_share", 0.1): "a stage's, and in its function's signature, which has to be the same",
    ("timeout", 60.0): "of two packages that know nothing of each other",
    ("version", 2): "each of its own plugin",
}
"""Defaults that share a name and a number, and not a meaning."""


def defaults(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The defaults of fields and parameters by name: a value, or what `Field`, `field` and `Option` have for one."""
    for node in ast.walk(tree):
        values: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values = [(node.target.id, node.value)]
        elif isinstance(node, ast.FunctionDef):
            last = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            values = [(each.arg, value) for each, value in zip(last, node.args.defaults, strict=True)]
            pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            values += [(each.arg, value) for each, value in pairs]
        for name, value in values:
            if isinstance(value, ast.Call):
                chosen = [key.value for key in value.keywords if key.arg == "default"]
                value = next(iter([*chosen, *value.args]), None)
            if value is not None:
                yield name, value


def origin(path: str, value: ast.expr) -> tuple[str, int | float] | None:
    """Where the number of an expression is written, by way of names and imports, and the number; None of others."""
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return f"{path}:{value.lineno}", number
        case ast.Name(id=name):
            for node in TREES[path].body:
                if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                    return origin(path, node.value)
            imports = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.ImportFrom)]
            for node in imports:
                names = {each.asname or each.name: each.name for each in node.names}
                if node.module in MODULES and (name in names or "*" in names):
                    found = origin(MODULES[node.module], ast.Name(names.get(name, name)))
                    if found is not None:
                        return found
    return None


@cache
def written() -> dict[tuple[str, int | float], set[str]]:
    """Where each default is written, by name and number."""
    places = defaultdict(set)
    for path, tree in TREES.items():
        for name, value in defaults(tree):
            if (stated := origin(path, value)) is not None:
                places[name, stated[1]].add(stated[0])
    return places


def test_a_default_is_one_number_in_one_place() -> None:
    twice = {each: sorted(lines) for each, lines in written().items() if len(lines) > 1}
    twice = {each: lines for each, lines in twice.items() if each[1] not in PLAIN or each[0] in ("seed", "depth")}
    assert {each: lines for each, lines in twice.items() if each not in DIFFERENT} == {}
    assert DIFFERENT.keys() <= twice.keys(), "one of DIFFERENT is written once by now"
    assert len(written()["seed", SEED]) == 1


def test_recipes_leave_the_seed_out_where_it_is_the_default() -> None:
    for name, path in shipped_recipes().items():
        assert yaml.safe_load(path.read_text(encoding="utf-8")).get("seed") != SEED, name
