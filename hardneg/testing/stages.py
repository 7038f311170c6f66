"""The contracts of verbs (`hardneg.stages.base.StageSpec`) and of analyses as tests."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from pydantic import ValidationError

from hardneg.analysis.base import Analysis, AnalysisInputs, write_analysis
from hardneg.encoders.open.contract import BASE
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.records import HardnegError
from hardneg.registry import configure
from hardneg.stages.base import RecipeView, Sizes, StageSpec
from hardneg.store import canonical
from hardneg.testing.plugin_contract import HEAVY, check_light, rule

_MODEL = FullSpec("tested", similarity="cosine", query_length=32, document_length=128)
_NAME = "tested"


class StageTests:
    """Set `stage` to the verb's class and `mapping` to an entry of a recipe, with its `stage`.

    Stages that it names should have names that are nothing else in it, such as `some-run`.

    What a verb does is not tested here: write a test that calls `make` with a `StageContext`.
    """

    stage: ClassVar[type[StageSpec]]
    mapping: ClassVar[Mapping[str, Any]]

    def spec(self) -> StageSpec:
        """Return the spec of the mapping."""
        return self.stage.model_validate(dict(self.mapping))

    def view(self) -> RecipeView:
        """Return a recipe with this stage alone, without those that it names."""
        spec, plugins = self.spec(), dict[tuple[str, str], Any]()
        for field, kind, setting in spec.plugins():
            try:
                plugins[_NAME, field] = configure(kind, setting)
            except HardnegError as error:
                rule(False, "the mapping names plugins that are installed, with options that they have", error)
        return RecipeView(_NAME, {_NAME: spec}, plugins, ModelSpec("tested"))

    def test_is_a_frozen_model_with_a_version(self) -> None:
        rule(isinstance(self.stage, type) and issubclass(self.stage, StageSpec), "a verb is a StageSpec", self.stage)
        rule(type(getattr(self.stage, "version", None)) is int, "a verb has `version`, a whole number")
        rule(isinstance(getattr(self.stage, "artifact_type", None), str), "a verb has `artifact_type`: what it makes")
        own = [name for name in ("version", "artifact_type") if name in self.stage.model_fields]
        rule(not own, "`version` and `artifact_type` are no fields", ", ".join(own))
        config = self.stage.model_config
        rule(bool(config.get("frozen")), "a verb is frozen", config)
        rule(config.get("extra") == "forbid", "a verb refuses what it does not know: extra='forbid'", config)
        rule(bool((self.stage.__doc__ or "").strip()), "the class has a docstring that says what it is for")
        hooks = {name for name in vars(StageSpec) if not name.startswith("_") and name != "model_config"}
        rule(not hooks & self.stage.model_fields.keys(), "no field has a hook's name", hooks)

    def test_its_mapping_is_checked(self) -> None:
        rule(self.spec().verb == self.mapping["stage"], "the field `stage` is the verb", self.spec().verb)
        try:
            self.stage.model_validate({**self.mapping, "no such field": 1})
        except ValidationError:
            return
        rule(False, "an unknown field is refused")

    def test_its_identity_is_stable(self) -> None:
        spec = self.spec()
        text = canonical(spec.identity())
        again = self.stage.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(canonical(again.identity()) == text, "the same mapping has the same identity")
        rule("stage" not in spec.identity(), "the verb enters a key by itself")
        named = {name for _, name, _ in spec.references() if re.search(rf'"{re.escape(name)}"(?!:)', text)}
        rule(not named, "a reference counts by the key of its stage, not by its name", ", ".join(named))

    def test_its_estimate_is_finite(self) -> None:
        for documents in (0, 1000):
            row = self.spec().estimate(Sizes(documents, {}, _MODEL, BASE))
            rule(bool(row.unit.strip()), "an estimate says what it counts", row)
            sound = all(math.isfinite(value) and value >= 0 for value in (row.items, row.disk))
            rule(sound, "an estimate's numbers are finite, and none is negative", row)

    def test_it_publishes_inside_the_run_folder(self) -> None:
        for target, source in self.spec().publishes(self.view()).items():
            for path in map(PurePosixPath, (target, source)):
                rule(not path.is_absolute() and ".." not in path.parts, "paths stay inside their folder", str(path))
            rule(PurePosixPath(target).parts != (), "what is published has a name", target)

    def test_its_hooks_bear_a_recipe_with_mistakes(self) -> None:
        spec, view = self.spec(), self.view()
        for line in spec.problems(view):
            field = line.partition(":")[0].partition(".")[0]
            rule(field in self.stage.model_fields, "a problem begins with its field and a colon", line)
        rule(all(isinstance(name, str) for name in spec.traits(view)), "traits are words")
        rule(all(isinstance(name, str) for name in spec.implied(view).values()), "implied inputs are stages' names")
        for find in spec.content(view).values():
            rule(callable(find), "`content` gives what finds a digest, and finds none itself")

    def test_its_module_is_light(self) -> None:
        check_light(self.stage.__module__, "importing a verb's module loads nothing heavy")


_HELP = """
import sys, {module}
heavy = [name for name in {heavy!r} if name in sys.modules]
assert not heavy, f"broken rule: importing an analysis's module loads nothing heavy: {{heavy}}"
from hardneg.cli.analysis_command import command_of
command_of({module}.{cls}).main(["--help"], prog_name="hardneg analyze {name}")
"""


class AnalysisTests:
    """Set `analysis` to the class and `mapping` to options that a recipe may have; override `inputs`.

    What it measures is not tested here: write a test with numbers that you have worked out by hand.
    """

    analysis: ClassVar[type[Analysis]]
    mapping: ClassVar[Mapping[str, Any]]

    def inputs(self, configured: Analysis, folder: Path) -> AnalysisInputs:
        """The inputs; `folder` is empty and the test's own. `hardneg.analysis.base.Files` reads plain files."""
        raise AssertionError(f"{type(self).__name__} must override `inputs`")

    def configured(self) -> Analysis:
        """Return the analysis of the mapping."""
        return self.analysis.model_validate(dict(self.mapping))

    def test_is_a_frozen_model_with_a_name_and_a_version(self) -> None:
        cls = self.analysis
        rule(isinstance(cls, type) and issubclass(cls, Analysis), "an analysis is an Analysis", cls)
        rule(bool(cls.model_config.get("frozen")), "an analysis is frozen", cls.model_config)
        rule(type(cls.version) is int, "an analysis has `version`, a whole number", cls.version)
        rule(bool(cls.name.strip() and cls.title.strip()), "an analysis has a name and a title")
        example = f"Example: hardneg analyze {cls.name} "
        rule(example in (cls.__doc__ or ""), "the docstring ends in an example of the command", example)

    def test_its_options_are_checked(self) -> None:
        self.configured()
        try:
            self.analysis.model_validate({**self.mapping, "no such option": 1})
        except ValidationError:
            return
        rule(False, "an unknown option is refused")

    def test_its_identity_is_stable(self) -> None:
        again = self.analysis.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(canonical(again.identity()) == canonical(self.configured().identity()), "equal options have one identity")

    def test_it_measures_what_json_holds_and_shows_it(self, tmp_path: Path) -> None:
        configured = self.configured()
        (tmp_path / "made").mkdir()
        numbers = configured.measure(self.inputs(configured, tmp_path))
        read = json.loads(json.dumps(numbers, allow_nan=False))
        shown = [list(configured.tables(each)) for each in (numbers, read)]
        texts = [[[[*table.columns], *map(list, table.rows)] for table in tables] for tables in shown]
        rule(canonical(texts[0]) == canonical(texts[1]), "the table is the same from what was read")
        for table in shown[0]:
            rule(all(len(row) == len(table.columns) for row in table.rows), "a row has a cell a column", table)
            rule(all(isinstance(cell, str) for row in table.rows for cell in row), "cells are texts", table)
        rule(isinstance(configured.heading(read), str) and isinstance(configured.explain(read), str), "words are texts")
        write_analysis(configured, self.inputs(configured, tmp_path), tmp_path / "made")
        svg = (tmp_path / "made" / f"{configured.name}.svg").read_text(encoding="utf-8")
        rule(svg.count("<svg") == 1, "`draw` writes a figure to each path")

    def test_its_module_is_light_and_its_command_has_help(self) -> None:
        cls = self.analysis
        program = _HELP.format(module=cls.__module__, cls=cls.__name__, name=cls.name, heavy=HEAVY)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        rule(done.returncode == 0, "the command tells its help, and loads nothing heavy", done.stderr[-800:])
        rule("Example:" in done.stdout and "plot" in done.stdout, "the help has the options", done.stdout)
