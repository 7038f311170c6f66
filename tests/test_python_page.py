"""The examples of docs/python.md run, from top to bottom, and give what is written beside them."""

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def expected(line: str) -> str | None:
    """What stands behind the last `  # ` of a line."""
    code, sign, told = line.rpartition("  # ")
    return told if sign and code else None


def checked(block: str, known: dict[str, object], capsys: pytest.CaptureFixture[str]) -> int:
    """Runs a block, and compares; returns how many values were compared."""
    lines, count = block.splitlines(), 0
    for node in ast.parse(block).body:
        told = expected(lines[(node.end_lineno or 0) - 1])
        capsys.readouterr()
        if isinstance(node, ast.Expr) and told is not None:
            value = eval(compile(ast.Expression(node.value), str(PAGE), "eval"), known)
            assert repr(value) == told, ast.unparse(node)
        else:
            exec(compile(ast.Module([node], []), str(PAGE), "exec"), known)
            if told is None:
                continue
            assert fnmatchcase(capsys.readouterr().out.strip(), told.replace("[", "[[]")), told
        count += 1
    return count


@pytest.mark.slow
def test_the_examples_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    found, known = blocks(PAGE.read_text(encoding="utf-8")), dict[str, object]()
    assert sum(checked(block, known, capsys) for block in found) > 12
