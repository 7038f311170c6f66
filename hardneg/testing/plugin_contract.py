"""The contract of every plugin, of any kind."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import eq
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hardneg.records import Candidates
from hardneg.registry import plugin_options
from hardneg.store import canonical, plugin_identity

LOOKAHEAD = 1024
"""Queries or requests that a plugin may read, by default, before its first answer."""
TOLERANCE = 1e-4
"""The largest difference, by default, of two numbers that may differ in their last bits."""

HEAVY = ("torch", "transformers", "sentence_transformers", "faiss", "pyserini", "jnius", "ranx", "matplotlib")
_Item = TypeVar("_Item")


def rule(holds: bool, text: str, detail: object = "") -> None:
    """Fail the test with the broken rule unless `holds`."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"broken rule: {text}" + (f"\n  found: {detail}" if str(detail) else ""))


def lazily(items: Iterable[_Item], what: str, count: int) -> Iterator[_Item]:
    """Yield all that a plugin may read before its first answer, then fail."""
    yield from items
    rule(False, f"{what} are read lazily: at most {count} before the first answer")


def check_independent(
    answers: Callable[[Sequence[_Item]], Sequence[Any]],
    items: Sequence[_Item],
    text: str,
    what: str = "queries",
    same: Callable[[Any, Any], bool] = eq,
) -> None:
    """Fail unless each answer is the same in another order of the items, alone, and again."""
    together = answers(items)
    for cause, others in (
        (f"the order of {what}", answers(items[::-1])[::-1]),
        (f"the other {what} of a batch", [one for item in items for one in answers([item])]),
        ("earlier calls", answers(items)),
    ):
        different = next((pair for pair in zip(together, others, strict=True) if not same([pair[0]], [pair[1]])), "")
        rule(same(list(others), list(together)), f"{text}, not on {cause}", different)


def check_unchanged(candidates: Sequence[Candidates], use: Callable[[], object], text: str) -> None:
    """Fail if the scores of lists are others after their use."""
    before = [item.scores.copy() for query in candidates for item in query.hits.values()]
    use()
    after = [item.scores for query in candidates for item in query.hits.values()]
    rule(all(map(np.array_equal, before, after)), text)


def check_light(module: str, text: str) -> None:
    """Fail if importing a module loads a heavy package: plans import it."""
    program = f"import sys, {module}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rule(not done.stdout.strip(), text, done.stdout.strip())


class PluginTests:
    """Set `plugin` to a configured instance, or override `make` where one needs files of its own."""

    plugin: Any = None

    def make(self, folder: Path) -> Any:
        """The plugin under test; `folder` is empty and the test's own."""
        if self.plugin is None:
            raise AssertionError(f"{type(self).__name__} must set `plugin`, or override `make`")
        return self.plugin

    def test_is_a_frozen_dataclass_with_a_version(self, tmp_path: Path) -> None:
        cls = type(self.make(tmp_path))
        rule(dataclasses.is_dataclass(cls), "a plugin is a dataclass", cls)
        frozen = cls.__dataclass_params__.frozen
        rule(frozen, "a plugin is a frozen dataclass: @dataclass(frozen=True)", cls)
        version = getattr(cls, "version", None)
        rule(type(version) is int, "a plugin has `version: ClassVar[int]`", repr(version))
        names = [field.name for field in dataclasses.fields(cls)]
        rule("version" not in names, "`version` is a ClassVar, not a field: it is no option")

    def test_options_survive_a_recipe(self, tmp_path: Path) -> None:
        from pydantic import TypeAdapter

        plugin = self.make(tmp_path)
        try:
            identity = plugin_identity("tested", plugin)
            text = canonical(identity)
        except (TypeError, ValueError) as error:  # pydantic's errors are ValueErrors
            raise AssertionError(f"broken rule: options can be written as JSON\n  found: {error}") from error
        again = TypeAdapter(type(plugin)).validate_python(identity["options"])
        rule(again == plugin, "options read back from JSON make an equal plugin", f"{again} for {plugin}")
        rule(canonical(plugin_identity("tested", again)) == text, "an equal plugin has the same identity")

    def test_every_option_is_explained(self, tmp_path: Path) -> None:
        cls = type(self.make(tmp_path))
        written = cls.__doc__ or ""
        automatic = written.startswith(f"{cls.__name__}(")
        rule(bool(written.strip()) and not automatic, "the class has a docstring that says what it is for")
        silent = [option["name"] for option in plugin_options(cls) if not option["meaning"]]
        rule(not silent, "the docstring's `Args:` explain every option", f"nothing about {', '.join(silent)}")
