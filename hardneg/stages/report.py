"""Verb `report`: what an evaluation, trainings, analyses and readings came to, as pages to read."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hardneg.data.collection import StoredCollection
from hardneg.fields import SECTION, Name, Reference
from hardneg.layout import METRICS, QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN, RUN
from hardneg.stages.context import ArtifactInput, Facts, StageContext
from hardneg.stages.spec import RecipeView, Row, Sizes, StageSpec
from hardneg.training.history import HISTORY, History

if TYPE_CHECKING:
    from hardneg.reporting.table import Section


class Report(StageSpec):
    """Writes tables, tests, training curves, analyses, what was read, and each query's passages as one HTML page.

    It is there as Markdown too, and the scores by query as `queries.tsv`.
    """

    version = 2
    kind = "report"
    purpose = "put tables and figures on a page"
    needs_dataset = True
    stage: Literal["report"]
    evaluation: Annotated[Name, Reference(("metrics",))]
    training: Annotated[dict[str, Name], Reference(("model", "reranker"))] = Field(default_factory=dict)
    analyses: Annotated[dict[str, Name], Reference((SECTION,))] = Field(default_factory=dict)
    reading: Annotated[dict[str, Name], Reference((SECTION,))] = Field(default_factory=dict)
    title: str = ""

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The runs that were evaluated, as `runs.LABEL`."""
        evaluation = recipe.stages.get(self.evaluation)
        references = evaluation.references() if evaluation is not None else ()
        return {path: target for path, target, need in references if "run" in need.kinds}

    def estimate(self, sizes: Sizes) -> Row:
        """Little."""
        return Row(1, "page", 4_000_000, seconds=8)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """The pages, and the scores by query."""
        return {name: name for name in (REPORT_HTML, REPORT_MARKDOWN, QUERY_TABLE)}

    def make(self, context: "StageContext[Report]") -> Facts:
        """Writes `report.md`, `report.html` and `queries.tsv`."""
        from hardneg.evaluation.metrics_json import read_metrics
        from hardneg.reporting.content import ReportContent
        from hardneg.reporting.page import write_report
        from hardneg.reporting.queries import Passages

        evaluation, trained = context.inputs["evaluation"], context.inputs_of("training")
        measured = read_metrics(evaluation.folder / METRICS)
        content = ReportContent.of(
            self.title or "Results",
            measured,
            histories={label: History(source.folder / HISTORY).read() for label, source in trained.items()},
            settings=_settings(evaluation, trained),
            sections=_sections(context.inputs_of("analyses")) + _sections(context.inputs_of("reading")),
        )
        split = getattr(evaluation.spec, "split", "test")
        collection = StoredCollection.open(context.inputs["dataset"].folder)
        runs = {label: source.folder / RUN for label, source in context.inputs_of("runs").items()}
        write_report(context.folder, content, measured, Passages(runs, collection.qrels(split), collection, split))
        return {}


def _settings(evaluation: ArtifactInput, trained: Mapping[str, ArtifactInput]) -> dict[str, object]:
    """What one needs to know to judge the table, name by name; of trainings with the label before."""
    found = dict(evaluation.spec.settings(evaluation)) if evaluation.spec else {}
    for label, source in trained.items():
        told = source.spec.settings(source) if source.spec else {}
        found |= {f"{label}: {name}": value for name, value in told.items()}
    return found


def _sections(sources: Mapping[str, ArtifactInput]) -> "list[Section]":
    """What the verbs that made the artifacts show of them, each of all of its own at once."""
    by_verb: dict[str, tuple[StageSpec, dict[str, ArtifactInput]]] = {}
    for label, source in sources.items():
        if source.spec is not None:
            by_verb.setdefault(source.spec.verb, (source.spec, {}))[1][label] = source
    return [section for spec, made in by_verb.values() for section in spec.sections(made)]
