"""The tutorial's files, as they stand on its page: a miner that passes its tests, and what `plugins new` writes."""

import re
from pathlib import Path

import pytest

from hardneg.cli.plugins import write_package
from hardneg.stages import StageSpec

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[2] / "docs" / "write-a-plugin.md"


def all_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def blocks() -> tuple[str, str]:
    source, tests, *_ = all_blocks()
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


def test_the_verb_is_the_one_that_is_written(tmp_path: Path) -> None:
    """The tests of what is written stand in tests/cli/test_looking_around.py, that of the analysis beside them."""
    write_package("stage", "shorten", tmp_path)
    verb, _ = all_blocks()[2:]
    assert verb == (tmp_path / "src" / "hardneg_shorten" / "shorten.py").read_text()


def test_the_page_names_every_method_of_a_verb_that_it_speaks_of() -> None:
    named = re.findall(r"^\| `(\w+)(?:\(\w+\))?` \| (?!`)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert "make" in named and all(hasattr(StageSpec, name) for name in named)
