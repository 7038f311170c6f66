"""The contract of analyses (`hardneg.analysis.base.Analysis`) as tests."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from hardneg.analysis.base import Analysis, write_analysis
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.store.digest import canonical
from hardneg.testing.plugin_contract import HEAVY, rule

_HELP = """
import sys, {module}
heavy = [name for name in {heavy!r} if name in sys.modules]
assert not heavy, f"broken rule: importing an analysis's module loads nothing heavy: {{heavy}}"
from hardneg.cli.analyze import command_of
command_of({module}.{cls}).main(["--help"], prog_name="hardneg analyze {name}")
"""


class AnalysisTests:
    """Set `analysis` to the class and `mapping` to options that a recipe may have; override `inputs`.

    What it measures is not tested here: write a test with numbers that you have worked out by hand.
    """

    analysis: ClassVar[type[Analysis]]
    mapping: ClassVar[Mapping[str, Any]]

    def inputs(self, configured: Analysis, folder: Path) -> AnalysisInputs:
        """The inputs; `folder` is empty and the test's own. `hardneg.analysis.inputs.Files` reads plain files."""
        raise AssertionError(f"{type(self).__name__} must override `inputs`")

    def configured(self) -> Analysis:
        """Return the analysis of the mapping."""
        return self.analysis.model_validate(dict(self.mapping))

    def test_is_a_frozen_model_with_a_name_and_a_version(self) -> None:
        """Its docstring is the help of its command."""
        cls = self.analysis
        rule(isinstance(cls, type) and issubclass(cls, Analysis), "an analysis is an Analysis", cls)
        rule(bool(cls.model_config.get("frozen")), "an analysis is frozen", cls.model_config)
        rule(type(cls.version) is int, "an analysis has `version`, a whole number", cls.version)
        rule(bool(cls.name.strip() and cls.title.strip()), "an analysis has a name and a title")
        example = f"Example: hardneg analyze {cls.name} "
        rule(example in (cls.__doc__ or ""), "the docstring ends in an example of the command", example)

    def test_its_options_are_checked(self) -> None:
        """An unknown option is an error."""
        self.configured()
        try:
            self.analysis.model_validate({**self.mapping, "no such option": 1})
        except ValidationError:
            return
        rule(False, "an unknown option is refused")

    def test_its_identity_is_stable(self) -> None:
        """The identity is JSON, and the same for the same options."""
        again = self.analysis.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(canonical(again.identity()) == canonical(self.configured().identity()), "equal options have one identity")

    def test_it_measures_what_json_holds_and_shows_it(self, tmp_path: Path) -> None:
        """The table has rows of texts, one for each column, the same from the JSON; and there is a figure."""
        configured = self.configured()
        (tmp_path / "made").mkdir()
        numbers = configured.measure(self.inputs(configured, tmp_path))
        read = json.loads(json.dumps(numbers, allow_nan=False))
        shown = [list(configured.tables(each)) for each in (numbers, read)]
        rule(canonical(_texts(shown[0])) == canonical(_texts(shown[1])), "the table is the same from what was read")
        for table in shown[0]:
            rule(all(len(row) == len(table.columns) for row in table.rows), "a row has a cell a column", table)
            rule(all(isinstance(cell, str) for row in table.rows for cell in row), "cells are texts", table)
        rule(isinstance(configured.heading(read), str) and isinstance(configured.explain(read), str), "words are texts")
        write_analysis(configured, self.inputs(configured, tmp_path), tmp_path / "made")
        svg = (tmp_path / "made" / f"{configured.name}.svg").read_text(encoding="utf-8")
        rule(svg.count("<svg") == 1, "`draw` writes a figure to each path")

    def test_its_module_is_light_and_its_command_has_help(self) -> None:
        """Plans and `--help` import the module, so heavy packages are imported where they are used."""
        cls = self.analysis
        program = _HELP.format(module=cls.__module__, cls=cls.__name__, name=cls.name, heavy=HEAVY)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        rule(done.returncode == 0, "the command tells its help, and loads nothing heavy", done.stderr[-800:])
        rule("Example:" in done.stdout and "plot" in done.stdout, "the help has the options", done.stdout)


def _texts(tables: list[Any]) -> list[Any]:
    return [[list(table.columns), [list(row) for row in table.rows]] for table in tables]
