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
from hardneg.testing.plugin_contract import rule
from hardneg.testing.stages import HEAVY

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

    def inputs(self, asked: Analysis, folder: Path) -> AnalysisInputs:
        """What it reads; `folder` is empty and the test's own. `hardneg.analysis.inputs.Files` reads plain files."""
        raise AssertionError(f"{type(self).__name__} must override `inputs`")

    def asked(self) -> Analysis:
        """The mapping, checked."""
        return self.analysis.model_validate(dict(self.mapping))

    def test_is_a_frozen_model_with_a_name_and_a_version(self) -> None:
        """Its docstring is the help of its command."""
        kind = self.analysis
        rule(isinstance(kind, type) and issubclass(kind, Analysis), "an analysis is an Analysis", kind)
        rule(bool(kind.model_config.get("frozen")), "an analysis is frozen", kind.model_config)
        rule(type(kind.version) is int, "an analysis has `version`, a whole number", kind.version)
        rule(bool(kind.name.strip() and kind.title.strip()), "an analysis has a name and a title")
        example = f"Example: hardneg analyze {kind.name} "
        rule(example in (kind.__doc__ or ""), "the docstring ends in an example of the command", example)

    def test_its_options_are_checked(self) -> None:
        """An option that it does not have is a mistake."""
        self.asked()
        try:
            self.analysis.model_validate({**self.mapping, "no such option": 1})
        except ValidationError:
            return
        rule(False, "an unknown option is refused")

    def test_its_identity_is_stable(self) -> None:
        """It is JSON, and the same for the same options."""
        again = self.analysis.model_validate(json.loads(json.dumps(dict(self.mapping))))
        rule(canonical(again.identity()) == canonical(self.asked().identity()), "equal options have one identity")

    def test_it_measures_what_json_holds_and_shows_it(self, tmp_path: Path) -> None:
        """Rows of texts, as long as the columns, the same from what was read; and a figure."""
        asked = self.asked()
        (tmp_path / "made").mkdir()
        found = asked.measure(self.inputs(asked, tmp_path))
        read = json.loads(json.dumps(found, allow_nan=False))
        shown = [list(asked.tables(each)) for each in (found, read)]
        rule(canonical(_texts(shown[0])) == canonical(_texts(shown[1])), "the table is the same from what was read")
        for table in shown[0]:
            rule(all(len(row) == len(table.columns) for row in table.rows), "a row has a cell a column", table)
            rule(all(isinstance(cell, str) for row in table.rows for cell in row), "cells are texts", table)
        rule(isinstance(asked.heading(read), str) and isinstance(asked.explain(read), str), "words are texts")
        write_analysis(asked, self.inputs(asked, tmp_path), tmp_path / "made")
        svg = (tmp_path / "made" / f"{asked.name}.svg").read_text(encoding="utf-8")
        rule(svg.count("<svg") == 1, "`draw` writes a figure to each path")

    def test_its_module_is_light_and_its_command_has_help(self) -> None:
        """A plan and a command's help import it: what is heavy is imported where it is used."""
        kind = self.analysis
        program = _HELP.format(module=kind.__module__, cls=kind.__name__, name=kind.name, heavy=HEAVY)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        rule(done.returncode == 0, "the command tells its help, and loads nothing heavy", done.stderr[-800:])
        rule("Example:" in done.stdout and "plot" in done.stdout, "the help has the options", done.stdout)


def _texts(tables: list[Any]) -> list[Any]:
    return [[list(table.columns), [list(row) for row in table.rows]] for table in tables]
