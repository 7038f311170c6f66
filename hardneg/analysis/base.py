"""What an analysis is: its options, what it measures, a table and a figure.

Recipes, the command line and reports are made from these alone, so that an analysis is one module.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Option as Option, Reference, marked_fields, marked_references
from hardneg.registry import plugin_errors
from hardneg.report.figure import draw_table
from hardneg.report.table import Section, Table
from hardneg.store import options_in_key, replace_text

Runs = Annotated[dict[Name, Name], Reference(("run",)), Option("run")]
"""Runs by label; on the command line files, with the labels that tell them apart."""


class Analysis(BaseModel):
    """Base of all analyses; the fields of a subclass are its options and references to what it reads.

    The docstring of a subclass is the help of its command and ends in an `Example:` of it; the descriptions of its
    fields are the help of its options.

    name: as its entry point has it. version: raised when the same options and inputs give another result. title:
    of its section in a report. explained: what one needs to know to read its table. paper: the item of a paper that
    it makes. asks: what its command takes beside the fields, of `qrels`, `queries`, `corpus`, `withheld` (each with a
    `?` where it may be left out), `relevance_level`, `seed`, `device`, `stages` (a run folder, whose stages are
    referred to by name). extra: the optional part of hardneg that it needs. beside: of other analyses of the same
    stage, the columns that the report puts beside its own, where the first cells agree. drawn: the columns of the table
    that the figure shows, as bars, or as lines along the column `across`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str]
    explained: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    asks: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""
    beside: ClassVar[Mapping[str, slice]] = {}
    drawn: ClassVar[slice] = slice(-1, None)
    across: ClassVar[int | None] = None

    @abstractmethod
    def measure(self, inputs: AnalysisInputs) -> Any:
        """The numbers, as JSON can hold them."""

    @abstractmethod
    def table(self, results: Any) -> Table:
        """The numbers as a table of texts; `results` is what `measure` gave, or that read from JSON."""

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """The numbers as a figure, written to all `paths`; by default columns of the table."""
        draw_table(self.table(results), self.drawn, self.across, paths)

    def tables(self, results: Any) -> Sequence[Table]:
        """The table, and more where one is not enough."""
        return [self.table(results)]

    def heading(self, results: Any) -> str:
        """The title of the section."""
        return self.title

    def explain(self, results: Any) -> str:
        """What one needs to know to read the table."""
        return self.explained

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """The fields from what the command line has for each; types: what the run folder's stages made.

        Raises:
            UsageError: something is missing, or does not fit together.
        """
        return values

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """What it asks of the collection in vain, one line each; `collection` is what stage `dataset` told."""
        yield from ()

    def encoders(self) -> Mapping[str, str]:
        """Models that need not be named: the path of the reference, and the index that the model has encoded.

        By default those of the fields `indexes`, by label, for `models`, and that of `index` for `model`.
        """
        models: Any = getattr(self, "models", None)
        indexes = {} if models is None else getattr(self, "indexes", {})
        unnamed = {f"models.{label}": index for label, index in indexes.items() if label not in models}
        alone = getattr(self, "index", None) if getattr(self, "model", "") is None else None
        return unnamed if alone is None else {"model": alone, **unnamed}

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every reference: its path, what it names, and what is needed of that."""
        return marked_references(self)

    def identity(self) -> dict[str, Any]:
        """All that may change the result: values with defaults, and the labels of references in their order."""
        references = {field for field, _, _ in marked_fields(self, Reference)}
        values = {field: _ordered(value) for field, value in options_in_key(self, references).items()}
        return {"version": self.version, **values, "references": [path for path, _, _ in self.references()]}


def _ordered(value: Any) -> Any:
    """Mappings as lists of pairs: the order of rows counts."""
    return [[key, _ordered(item)] for key, item in value.items()] if isinstance(value, dict) else value


def write_analysis(analysis: Analysis, inputs: AnalysisInputs, folder: Path) -> None:
    """Measures, and writes `NAME.json`, `NAME.png` and `NAME.svg` into a folder."""
    with plugin_errors([analysis]):
        results = analysis.measure(inputs)
        analysis.draw(results, [folder / f"{analysis.name}.png", folder / f"{analysis.name}.svg"])
    text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
    replace_text(folder / f"{analysis.name}.json", text + "\n")


def sections(label: str, analyses: Sequence[Analysis], folder: Path) -> list[Section]:
    """The sections of a report on what `write_analysis` left in a folder; `label` begins their titles."""
    made = []
    with plugin_errors(analyses):
        contents = {each.name: json.loads((folder / f"{each.name}.json").read_text("utf-8")) for each in analyses}
        tables = {each.name: list(each.tables(contents[each.name])) for each in analyses}
        for each in analyses:
            results, (first, *more) = contents[each.name], tables[each.name]
            for name, columns in each.beside.items():
                first = _joined(first, tables[name][0], columns) if name in tables else first
            svg = (folder / f"{each.name}.svg").read_text("utf-8")
            title, explained = f"{label}: {each.heading(results)}", each.explain(results)
            made.append(Section(title, [first, *more], explained, svg))
    return made


def _joined(table: Table, other: Table, columns: slice) -> Table:
    """A table with columns of another one beside the rows that have the same first cell."""
    known = {row[0]: row[columns] for row in other.rows}
    lacking = ["–"] * len(other.columns[columns])
    rows = [[*row, *known.get(row[0], lacking)] for row in table.rows]
    return Table([*table.columns, *other.columns[columns]], rows, table.words)


def percent(share: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "–" if share is None else f"{share:.1%}"
