"""What the commands of lines write: their options for it, the result laid there, and what is printed about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.cli import export, options
from hardneg.cli.console import print_section, say, say_json, stdout_console, tell_left_out
from hardneg.cli.options import keyword
from hardneg.cli.outputs import check_run
from hardneg.cli.planned_work import laid_at
from hardneg.records.errors import UsageError
from hardneg.records.layout import DROPPED
from hardneg.records.wording import counted
from hardneg.store.atomic_write import link_file, replace_text
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.api.recommending import RecommendedNegatives
    from hardneg.api.results import StoredResult
    from hardneg.lines.base import Line


def outputs(line: "type[Line]") -> Iterator[Parameter]:
    """The options of a command for what it writes."""
    if line.writes == "negatives":
        yield keyword("form", default=export.FORM, annotation=str)
        yield keyword("count", default=export.COUNT, annotation=int)
    yield keyword("output", default=options.OUTPUTS[line.writes], annotation=Path)
    if line.writes == "negatives":
        yield keyword("scores", default=export.SCORES, annotation=bool)
        yield keyword("corpus", default=export.CORPUS, annotation=Path | None)
        yield keyword("dropped", default=export.DROPPED_FILE, annotation=Path | None)
    yield keyword("overwrite", default=options.OVERWRITE, annotation=bool)
    if line.writes == "recipe":
        yield keyword("as_json", default=options.JSON, annotation=bool)


def output_of(line: "type[Line]", args: Mapping[str, Any]) -> "ResultOutput | NegativesOutput | RecipeOutput":
    """Where and how a command is to write its result."""
    if line.writes == "recipe":
        return RecipeOutput(args["output"], args["as_json"])
    if line.writes != "negatives":
        return ResultOutput(line, args["output"])
    names = ("form", "count", "output", "scores", "corpus", "dropped")
    return NegativesOutput(export.NegativesTarget(*(args[name] for name in names)))


@dataclass(frozen=True)
class ResultOutput:
    """A file or a folder that a result is laid at as it is."""

    line: "type[Line]"
    output: Path

    def check(self) -> None:
        """Raises UsageError where a run is to have another name than that of a gzip file."""
        if self.line.writes == "run":
            check_run(self.output)

    @property
    def targets(self) -> list[Target]:
        """What is written."""
        return [Target(self.output, folder=self.line.writes == "folder")]

    def write(self, result: "StoredResult", outputs: Outputs) -> None:
        """Lays the result there, and tells what was made and what was left out."""
        with outputs.laid_out():
            laid_at(self.output, result.path)
        facts = dict(result.facts)
        for sentence in self.line().sentences(result):
            say(sentence)
        counts = [counted(facts.pop(name, 0), *nouns) for name, nouns in self.line.counts.items()]
        say(": ".join([str(self.output), *([", ".join(counts)] if counts else [])]))
        if counts:
            left = {name: count for name, count in facts.items() if name not in self.line.unsaid}
            tell_left_out({name: count for name, count in left.items() if isinstance(count, int)})


@dataclass(frozen=True)
class NegativesOutput:
    """Negatives in the form of a training program, and what was dropped beside them."""

    target: export.NegativesTarget

    def check(self) -> None:
        """Raises UsageError where the form and the files do not go together."""
        self.target.check()

    @property
    def targets(self) -> list[Target]:
        """What is written."""
        return self.target.files

    def write(self, result: Any, outputs: Outputs) -> None:
        """Writes the negatives, and tells of them."""
        _tell_mined(result.facts)
        with outputs.laid_out():
            if self.target.dropped is not None:
                if not (result.folder / DROPPED).is_file():
                    raise UsageError(
                        "--dropped: this miner does not record what it drops; leave it out, or take denoised"
                    )
                link_file(result.folder / DROPPED, self.target.dropped)
                say(f"{self.target.dropped}: what was dropped")
            export.write(result, self.target)


@dataclass(frozen=True)
class RecipeOutput:
    """A recipe with the negatives that it was written for, and figures of why."""

    output: Path
    as_json: bool

    def check(self) -> None:
        """Raises UsageError where it is to have another name than that of a recipe."""
        if self.output.suffix != ".yaml":
            raise UsageError(f"{self.output}: is to be a recipe; give a name that ends in .yaml")

    @property
    def figures(self) -> list[Path]:
        """Beside the recipe."""
        return [self.output.with_suffix(form) for form in (".png", ".svg")]

    @property
    def targets(self) -> list[Target]:
        """What is written."""
        return [Target(path) for path in (self.output, *self.figures)]

    def write(self, result: "RecommendedNegatives", outputs: Outputs) -> None:
        """Writes them, and tells what was chosen, and why."""
        with replace(outputs, keys=result.keys).laid_out():
            replace_text(self.output, result.recipe(self.output))
            result.draw(self.figures)
        if self.as_json:
            return say_json({"recipe": str(self.output), **result.to_dict()})
        say(result.answer())
        print_section(stdout_console(), result.section())
        say(f"{self.output}: hardneg recipe run {self.output}")


def _tell_mined(facts: Mapping[str, Any]) -> None:
    counts = {name: count for name, count in facts.items() if isinstance(count, int) and count}
    say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
    counts.pop("queries in the run", None)
    dropped = {name: counts.pop(name) for name in list(counts) if name.startswith("dropped as ")}
    if dropped:
        reasons = ", ".join(f"{name.removeprefix('dropped as ')} {count}" for name, count in dropped.items())
        say(f"  candidates left out: {reasons}")
    tell_left_out(counts)
