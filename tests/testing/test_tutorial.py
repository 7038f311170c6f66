"""The tutorial's two files, as they stand on its page, are a miner that passes its tests."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[2] / "docs" / "write-a-plugin.md"


def blocks() -> tuple[str, str]:
    source, tests = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return source, tests


def run(pytester: pytest.Pytester, source: str, tests: str, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    package = pytester.mkpydir("hardneg_alternate")
    (package / "alternate.py").write_text(source)
    pytester.makepyfile(test_alternate=tests)
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")


def test_it_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = run(pytester, *blocks(), monkeypatch).parseoutcomes()
    assert set(outcomes) == {"passed"} and outcomes["passed"] > 10


def test_without_two_lines_it_fails_as_told(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source, tests = blocks()
    broken = re.sub(r" +for doc_id in \(\*query.*\n.*\n", "", source)
    assert len(broken.splitlines()) == len(source.splitlines()) - 2
    result = run(pytester, broken, tests, monkeypatch)
    told = re.search(r"(broken rule: a positive.*)\n +(found: .*)\n", PAGE.read_text(encoding="utf-8"))
    assert told
    result.stdout.fnmatch_lines([f"E*{told[1]}", "E*found: * of query q0"])
    assert told[2] in result.stdout.str()
