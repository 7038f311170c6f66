"""Contract tests for all plugins, and for stages and analyses."""

import dataclasses
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import eq
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from hardneg.analysis.base import Analysis, AnalysisInputs, write_analysis
from hardneg.encoders.open.contract import BASE
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.records import Candidates, HardnegError
from hardneg.registry import configure, plugin_options
from hardneg.stages import RecipeView, Sizes, StageSpec
from hardneg.store import digest, plugin_identity

LOOKAHEAD = 1024
"""Default number of queries, documents or requests that a plugin may read before its first answer."""
TOLERANCE = 1e-4
"""Default absolute and relative tolerance for numbers that may differ in their last bits."""

HEAVY = ("torch", "transformers", "sentence_transformers", "faiss", "pyserini", "jnius", "ranx", "matplotlib")
_Item = TypeVar("_Item")


def rule(holds: bool, text: str, detail: object = "") -> None:
    """Fail the test unless `holds` is true; the message gives the broken rule, `text`, and what was found, `detail`."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"broken rule: {text}" + (f"\n  found: {detail}" if str(detail) else ""))


def lazily(items: Iterable[_Item], what: str, count: int) -> Iterator[_Item]:
    """Yield `count` items and fail if a plugin reads more before its first answer. what: the items' name."""
    yield from items
    rule(False, f"{what} are read lazily: at most {count} before the first answer")


def check_independent(
    answers: Callable[[Sequence[_Item]], Sequence[Any]],
    items: Sequence[_Item],
    text: str,
    what: str = "queries",
    same: Callable[[Any, Any], bool] = eq,
) -> None:
    """Fail with the rule `text` unless each item has the same answer in reverse order, alone, and when asked again.

    answers: returns one answer per item. what: the items' name. same: returns whether two lists of answers are equal.
    """
    together = answers(items)
    for cause, others in (
        (f"the order of {what}", answers(items[::-1])[::-1]),
        (f"the other {what} of a batch", [one for item in items for one in answers([item])]),
        ("earlier calls", answers(items)),
    ):
        different = next((pair for pair in zip(together, others, strict=True) if not same([pair[0]], [pair[1]])), "")
        rule(same(list(others), list(together)), f"{text}, not on {cause}", different)


def check_unchanged(candidates: Sequence[Candidates], use: Callable[[], object], text: str) -> None:
    """Fail with the rule `text` if calling `use` changes scores in the ranked lists of the candidates."""
    before = [item.scores.copy() for query in candidates for item in query.hits.values()]
    use()
    after = [item.scores for query in candidates for item in query.hits.values()]
    rule(all(map(np.array_equal, before, after)), text)


def check_light(module: str, text: str) -> None:
    """Fail with the rule `text` if importing `module`, as planning a recipe does, loads a package in `HEAVY`."""
    program = f"import sys, {module}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rule(not done.stdout.strip(), text, done.stdout.strip())


class PluginTests:
    """Tests of any plugin. Set `plugin` to a configured instance, or override `make` if the plugin needs files."""

    plugin: Any = None

    def make(self, folder: Path) -> Any:
        """Return the plugin under test; `folder` is empty and private to the test."""
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
        rule("version" not in names, "`version` is a ClassVar, not a field or option")

    def test_options_survive_a_recipe(self, tmp_path: Path) -> None:
        plugin = self.make(tmp_path)
        try:
            identity = plugin_identity("tested", plugin)
            key = digest(identity)
        except (TypeError, ValueError) as error:  # pydantic's errors are ValueErrors
            raise AssertionError(f"broken rule: options can be written as JSON\n  found: {error}") from error
        again = TypeAdapter(type(plugin)).validate_python(identity["options"])
        rule(again == plugin, "options read back from JSON create an equal plugin", f"{again} for {plugin}")
        rule(digest(plugin_identity("tested", again)) == key, "equal plugins have the same identity")

    def test_every_option_is_explained(self, tmp_path: Path) -> None:
        cls = type(self.make(tmp_path))
        written = cls.__doc__ or ""
        automatic = written.startswith(f"{cls.__name__}(")
        rule(bool(written.strip()) and not automatic, "the class has a docstring that states its purpose")
        silent = [option["name"] for option in plugin_options(cls) if not option["meaning"]]
        rule(not silent, "`Args:` in the docstring explains every option", f"missing {', '.join(silent)}")


def check_unknown_fields(model: type[BaseModel], mapping: Mapping[str, Any]) -> None:
    with suppress(ValidationError):
        model.model_validate({**mapping, "no such field": 1})
        rule(False, "unknown fields are rejected")


_MODEL = FullSpec("tested", similarity="cosine", query_length=32, document_length=128)
_NAME = "tested"


def _identity_text(spec: StageSpec) -> str:
    values = {name: "content" if callable(value) else value for name, value in spec.identity().items()}
    return json.dumps(values, sort_keys=True)


class StageTests:
    """Tests of a stage. Set `stage` to the stage class and `mapping` to a recipe entry that includes `stage`.

    Give referenced stages names that do not occur elsewhere in the mapping, such as `some-run`. The work of the stage
    is not tested here: write a test that calls `make` with a `StageContext`.
    """

    stage: ClassVar[type[StageSpec]]
    mapping: ClassVar[Mapping[str, Any]]

    def spec(self) -> StageSpec:
        """Return the spec parsed from `mapping`."""
        return self.stage.model_validate(dict(self.mapping))

    def view(self) -> RecipeView:
        """Return a recipe that has only this stage, and not the stages it refers to."""
        spec, plugins = self.spec(), dict[tuple[str, str], Any]()
        for field, kind, setting in spec.plugins():
            try:
                plugins[_NAME, field] = configure(kind, setting)
            except HardnegError as error:
                rule(False, "the mapping uses installed plugins and valid options", error)
        return RecipeView(_NAME, {_NAME: spec}, plugins, ModelSpec("tested"))

    def test_is_a_frozen_model_with_a_version(self) -> None:
        rule(isinstance(self.stage, type) and issubclass(self.stage, StageSpec), "a stage is a StageSpec", self.stage)
        rule(type(getattr(self.stage, "version", None)) is int, "a stage has a whole number `version`")
        rule(isinstance(getattr(self.stage, "artifact_type", None), str), "a stage has a string `artifact_type`")
        own = [name for name in ("version", "artifact_type") if name in self.stage.model_fields]
        rule(not own, "`version` and `artifact_type` are not fields", ", ".join(own))
        config = self.stage.model_config
        rule(bool(config.get("frozen")), "a stage is frozen", config)
        rule(config.get("extra") == "forbid", "a stage rejects unknown fields (extra='forbid')", config)
        rule(bool((self.stage.__doc__ or "").strip()), "the class has a docstring that states its purpose")
        hooks = {name for name in vars(StageSpec) if not name.startswith("_") and name != "model_config"}
        rule(not hooks & self.stage.model_fields.keys(), "no field has the name of a hook", hooks)

    def test_its_mapping_is_checked(self) -> None:
        stage = self.spec().stage
        rule(stage == self.mapping["stage"], "the field `stage` is the name of the stage", stage)
        check_unknown_fields(self.stage, self.mapping)

    def test_its_identity_is_stable(self) -> None:
        spec = self.spec()
        text = _identity_text(spec)
        again = self.stage.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(_identity_text(again) == text, "the same mapping has the same identity")
        rule("stage" not in spec.identity(), "`identity` does not contain `stage`, which is added separately")
        named = {name for _, name, _ in spec.references() if re.search(rf'"{re.escape(name)}"(?!:)', text)}
        rule(not named, "`identity` does not contain names of referenced stages", ", ".join(named))

    def test_its_estimate_is_finite(self) -> None:
        for documents in (0, 1000):
            row = self.spec().estimate(Sizes(documents, {}, _MODEL, BASE))
            rule(bool(row.unit.strip()), "an estimate has a unit", row)
            sound = all(math.isfinite(value) and value >= 0 for value in (row.items, row.disk))
            rule(sound, "an estimate's numbers are finite and not negative", row)

    def test_it_publishes_inside_the_run_folder(self) -> None:
        for target, source in self.spec().publishes(self.view()).items():
            for path in map(PurePosixPath, (target, source)):
                rule(not path.is_absolute() and ".." not in path.parts, "paths stay inside their folder", str(path))
            rule(PurePosixPath(target).parts != (), "a published path is not empty", target)

    def test_its_hooks_bear_a_recipe_with_mistakes(self) -> None:
        spec, view = self.spec(), self.view()
        for line in spec.problems(view):
            field = line.partition(":")[0].partition(".")[0]
            rule(field in self.stage.model_fields, "a problem starts with a field and a colon", line)
        rule(all(isinstance(name, str) for name in spec.traits(view)), "traits are strings")
        rule(all(isinstance(name, str) for name in spec.implied(view).values()), "implied inputs are names of stages")

    def test_its_module_is_light(self) -> None:
        check_light(self.stage.__module__, "importing the module of a stage loads no heavy package")


_HELP = """
import sys, {module}
heavy = [name for name in {heavy!r} if name in sys.modules]
assert not heavy, f"broken rule: importing an analysis's module loads no heavy package: {{heavy}}"
from hardneg.cli.analysis_command import command_of
command_of({module}.{cls}).main(["--help"], prog_name="hardneg analyze {name}")
"""


class AnalysisTests:
    """Tests of an analysis. Set `analysis` to the class and `mapping` to recipe options; override `inputs`.

    The numbers are not tested here: write a test with numbers that you have computed by hand.
    """

    analysis: ClassVar[type[Analysis]]
    mapping: ClassVar[Mapping[str, Any]]

    def inputs(self, configured: Analysis, folder: Path) -> AnalysisInputs:
        """Return the inputs; `folder` is private to the test. `hardneg.analysis.base.Files` reads plain files."""
        raise AssertionError(f"{type(self).__name__} must override `inputs`")

    def configured(self) -> Analysis:
        """Return the analysis configured by `mapping`."""
        return self.analysis.model_validate(dict(self.mapping))

    def test_is_a_frozen_model_with_a_name_and_a_version(self) -> None:
        cls = self.analysis
        rule(isinstance(cls, type) and issubclass(cls, Analysis), "an analysis is an Analysis", cls)
        rule(bool(cls.model_config.get("frozen")), "an analysis is frozen", cls.model_config)
        rule(type(cls.version) is int, "an analysis has a whole number `version`", cls.version)
        rule(bool(cls.name.strip() and cls.title.strip()), "an analysis has a name and a title")
        example = f"Example: hardneg analyze {cls.name} "
        rule(example in (cls.__doc__ or ""), "the docstring has an example of the command", example)

    def test_its_options_are_checked(self) -> None:
        self.configured()
        check_unknown_fields(self.analysis, self.mapping)

    def test_its_identity_is_stable(self) -> None:
        again = self.analysis.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(digest(again.identity()) == digest(self.configured().identity()), "equal options have the same identity")

    def test_it_measures_what_json_holds_and_shows_it(self, tmp_path: Path) -> None:
        configured = self.configured()
        (tmp_path / "made").mkdir()
        numbers = configured.measure(self.inputs(configured, tmp_path))
        read = json.loads(json.dumps(numbers, allow_nan=False))
        shown = [list(configured.tables(each)) for each in (numbers, read)]
        texts = [[[[*table.columns], *map(list, table.rows)] for table in tables] for tables in shown]
        rule(digest(texts[0]) == digest(texts[1]), "`tables` returns the same for numbers read back from JSON")
        for table in shown[0]:
            rule(all(len(row) == len(table.columns) for row in table.rows), "a row has one cell per column", table)
            rule(all(isinstance(cell, str) for row in table.rows for cell in row), "cells are strings", table)
        rule(isinstance(configured.heading(read) + configured.explain(read), str), "heading and explanation are text")
        write_analysis(configured, self.inputs(configured, tmp_path), tmp_path / "made")
        svg = (tmp_path / "made" / f"{configured.name}.svg").read_text(encoding="utf-8")
        rule(svg.count("<svg") == 1, "`draw` writes a figure to each path")

    def test_its_module_is_light_and_its_command_has_help(self) -> None:
        cls = self.analysis
        program = _HELP.format(module=cls.__module__, cls=cls.__name__, name=cls.name, heavy=HEAVY)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        rule(done.returncode == 0, "the command prints its help and loads no heavy package", done.stderr[-800:])
        rule("Example:" in done.stdout and "plot" in done.stdout, "the help has an example and options", done.stdout)
