"""Whether the tests would notice: small faults are put into the code, one at a time, and its own fast tests run.

    python benchmarks/mutants.py                                     30 mutants of each part named in `PARTS`
    python benchmarks/mutants.py losses mining --count 100 --seed 7  other parts, more, others
    python benchmarks/mutants.py losses --at pairs.py:31             those of one line alone
    python benchmarks/mutants.py --output mutants.jsonl              one line a mutant, written as they end

A mutant is one operator, comparison, constant or condition changed. It dies where a test fails or runs out of time.
Those that live are listed: each needs a test, unless nothing that anyone could see depends on it. Files stay as they
are: the changed module exists in a forked process alone, so a test that starts a process of its own does not see it.
"""

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
PARTS = {
    **{
        name: (f"hardneg/{name}/**/*.py", [f"tests/{name}"])
        for name in ("losses", "mining", "evaluation", "datasets", "indexes")
    },
    "evaluation": ("hardneg/evaluation/*.py", ["tests/evaluation"]),
    "data": ("hardneg/formats/**/*.py", ["tests/formats"]),
    "training": ("hardneg/training/**/*.py", ["tests/training"]),
    "masks": ("hardneg/training/methods/dual_encoder.py", ["tests/training/test_loss_terms.py"]),
    "scoring": (
        "hardneg/training/batches.py",
        [f"tests/training/test_{name}.py" for name in ("batches", "loss_terms")],
    ),
    "drawing": ("hardneg/training/examples.py", ["tests/training/test_examples.py"]),
    "blocks": ("hardneg/store/blocks.py", ["tests/store/test_blocks.py", "tests/encoders/test_stream.py"]),
}
"""Of each part: its sources, and the tests that have to notice."""

_PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn),
    (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.FloorDiv, ast.Mult), (ast.And, ast.Or), (ast.BitAnd, ast.BitOr),
]  # fmt: skip
_SWAPS = {**{second: first for first, second in _PAIRS}, **dict(_PAIRS)}
_PRELOADED = ("numpy", "scipy.stats", "torch", "transformers", "sentence_transformers", "hypothesis", "pytest")


@dataclass(frozen=True)
class Mutant:
    """One fault: where, what the line's expression was and becomes, and the module's code with it."""

    path: Path
    line: int
    before: str
    after: str
    code: CodeType

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before} -> {self.after}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file; annotations, decorators, texts and versions of plugins are left alone."""
    tree = ast.parse(path.read_text(), str(path))
    for node in list(_mutable(tree)):
        before = _text(node)
        for change in _changes(node):
            was = {name: getattr(node, name) for name in change}
            _set(node, change)
            yield Mutant(path, node.lineno, before, _text(node), compile(tree, str(path), "exec"))
            _set(node, was)


def _set(node: ast.AST, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(node, name, value)


def _text(node: ast.expr | ast.If) -> str:
    return f"if {ast.unparse(node.test)}" if isinstance(node, ast.If) else ast.unparse(node)


def _changes(node: ast.expr | ast.If) -> Iterator[dict[str, object]]:
    """What attributes of a node may become, one change at a time."""
    match node:
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
            yield {"test": ast.copy_location(ast.UnaryOp(ast.Not(), test), test)}
        case ast.IfExp(body=body, orelse=other):
            yield {"body": other, "orelse": body}
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            yield {"ops": [_SWAPS[type(op)]()]}
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _SWAPS:
            yield {"op": _SWAPS[type(op)]()}
        case ast.UnaryOp(op=ast.USub()):
            yield {"op": ast.UAdd()}
        case ast.Constant(value=bool() as value):
            yield {"value": not value}
        case ast.Constant(value=int() as value):
            yield {"value": value + 1}
        case ast.Constant(value=float() as value):
            yield {"value": value * 1.5 + 0.1}


def _mutable(tree: ast.AST) -> Iterator[ast.expr | ast.If]:
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _left_alone(child):
                continue
            if isinstance(child, ast.expr | ast.If):
                yield child
            yield from _mutable(child)


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.AnnAssign(target=ast.Name(id="version")) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg="strict"):
            return True
        case ast.Subscript(value=ast.Name(id=name)):
            return name in {"Literal", "Annotated", "tuple", "list", "dict", "NDArray"}
    return False


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Loads one module with its fault."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path))
        self.code = mutant.code

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return self.code


@dataclass(frozen=True)
class Trial:
    """The fast tests of one mutant, in a process of their own."""

    mutant: Mutant | None
    tests: tuple[str, ...]
    pid: int
    end: float

    @classmethod
    def start(cls, mutant: Mutant | None, tests: list[str], limit: float) -> "Trial":
        pid = os.fork()
        if not pid:
            _run_tests(mutant, tests)
        return cls(mutant, tuple(tests), pid, time.monotonic() + limit)

    def verdict(self) -> str | None:
        """ "died", "lived" or "late"; None as long as it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            return "lived" if os.waitstatus_to_exitcode(status) == 0 else "died"
        if time.monotonic() < self.end:
            return None
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "late"


def _run_tests(mutant: Mutant | None, tests: list[str]) -> None:
    os.setsid()
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant))
    import pytest

    os.chdir(ROOT)
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    os._exit(int(pytest.main([*options, *tests])))


def run(mutants: list[tuple[Mutant, list[str]]], limit: float, jobs: int) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with its verdict, as they end."""
    waiting, trials = mutants[::-1], []
    while waiting or trials:
        while waiting and len(trials) < jobs:
            trials.append(Trial.start(*waiting.pop(), limit))
        time.sleep(0.05)
        for trial in list(trials):
            if (verdict := trial.verdict()) and trial.mutant:
                trials.remove(trial)
                yield trial.mutant, verdict


def seconds_unchanged(tests: list[str]) -> float:
    """How long the tests take as they are; ends the program where they fail."""
    begin = time.monotonic()
    trial = Trial.start(None, tests, 3600)
    while not (verdict := trial.verdict()):
        time.sleep(0.1)
    if verdict != "lived":
        sys.exit(f"{' '.join(tests)}: fail without any fault: mend them first")
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--count", type=int, default=30, help="mutants of a part, drawn from all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", default="", help="FILE or FILE:LINE: those alone")
    parser.add_argument("--tests", nargs="+", help="these in place of the part's own")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--output", type=Path, help="a file for one line of JSON a mutant")
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        sys.exit(f"no part is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
    for name in _PRELOADED:
        importlib.import_module(name)
    print("| part | mutants | died | lived |\n|---|---|---|---|")
    alive: list[str] = []
    for part in given.parts or PARTS:
        sources, tests = PARTS[part]
        tests = given.tests or tests
        made = [mutant for path in sorted(ROOT.glob(sources)) for mutant in mutants_of(path)]
        made = [mutant for mutant in made if f"{given.at}:" in f"{mutant.path}:{mutant.line}:"]
        drawn = made if given.at else random.Random(given.seed).sample(made, min(given.count, len(made)))
        limit = 60 + 5 * seconds_unchanged(tests)
        died = 0
        for mutant, verdict in run([(mutant, tests) for mutant in drawn], limit, given.jobs):
            died += verdict != "lived"
            if verdict == "lived":
                alive.append(str(mutant))
            if given.output:
                with given.output.open("a") as file:
                    file.write(json.dumps({"part": part, "mutant": str(mutant), "verdict": verdict}) + "\n")
        print(f"| {part} | {len(drawn)} of {len(made)} | {died} | {len(drawn) - died} |", flush=True)
    print("\nAlive:", *alive, sep="\n")


if __name__ == "__main__":
    main()
