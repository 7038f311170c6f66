"""Stage `analyze`: numbers as JSON, figures as PNG and SVG, of what lies behind the metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from hardneg.analysis.base import Analysis, AnalysisInputs, Record, System, sections, write_analysis
from hardneg.encoders import protocol, spec
from hardneg.evaluation.metrics_json import Measured, read_metrics
from hardneg.fields import Name, Reference, Trait
from hardneg.formats import runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import Qrels, positives, without_excluded
from hardneg.protocols import DenseSearcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import load_plugin, no_such_option
from hardneg.report.table import Section
from hardneg.runtime import SEED
from hardneg.stages import inputs
from hardneg.stages.base import ArtifactInput, Facts, RecipeView, StageContext, StageSpec
from hardneg.training.checkpoint import History

_FIELD = "analysis"


def _parse(value: Any) -> tuple[Analysis, ...]:
    if not isinstance(value, Mapping) or "name" in value:
        raise ValueError("must map each analysis by its name to its options, as {overlap: {depth: 10}} does")
    analyses, problems = list[Analysis](), list[InitErrorDetails]()
    for name, options in value.items():
        try:
            analysis_type: type[Analysis] = load_plugin("analyses", str(name))
            analyses.append(analysis_type.model_validate(options or {}))
        except errors.PluginError as error:
            own = PydanticCustomError("analysis", "{text}", {"text": str(error)})
            problems.append(InitErrorDetails(type=own, loc=(name,), input=name))
        except ValidationError as error:
            for item in error.errors():
                kind: Any = item["type"]
                if kind == "extra_forbidden":
                    text = no_such_option(str(item["loc"][-1]), list(analysis_type.model_fields))
                    kind = PydanticCustomError("analysis", "{text}", {"text": text})
                loc, ctx = (name, *item["loc"]), item.get("ctx", {})
                problems.append(InitErrorDetails(type=kind, loc=loc, input=item["input"], ctx=ctx))
    if problems:
        raise ValidationError.from_exception_data("analysis", problems)
    return tuple(analyses)


class Analyze(StageSpec):
    """Measures what lies behind the metrics: numbers, a table and a figure of each analysis.

    analysis: the options of each analysis by its name. split: whose queries and judgements it is about.
    relevance_level: the lowest grade that is relevant.
    """

    version = 3
    artifact_type = "analysis"
    query_disk = (1_000_000, 100)
    purpose = "measure what lies behind the metrics"
    needs_dataset = True
    stage: Literal["analyze"]
    analysis: Annotated[tuple[SerializeAsAny[Analysis], ...], BeforeValidator(_parse), Field(min_length=1)]
    split: Name = "test"
    relevance_level: int = Field(1, gt=0)
    seed: int = SEED

    def why(self) -> str:
        return f"{self.purpose}: {wording.joined([each.name for each in self.analysis])}"

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        yield from super().references()
        for each in self.analysis:
            for path, name, need in each.references():
                yield f"{_FIELD}.{each.name}.{path}", name, need

    def identity(self) -> dict[str, Any]:
        shared = {name: getattr(self, name) for name in ("split", "relevance_level", "seed")}
        return {**shared, "analyses": [[each.name, each.identity()] for each in self.analysis]}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        for each, path, index in self._encoders():
            if recipe.query_model(index) is None and Trait.IMPORTED in recipe.traits(index):
                problem = f"no model is known that encodes queries for {index!r}, of imported vectors"
                yield f"{_FIELD}.{each.name}.{path}: missing; {problem}: name one"

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        named = ((each.name, path, recipe.query_model(index)) for each, path, index in self._encoders())
        return {f"{_FIELD}.{name}.{path}": model for name, path, model in named if model is not None}

    def _encoders(self) -> Iterator[tuple[Analysis, str, str]]:
        return ((each, path, index) for each in self.analysis for path, index in each.encoders().items())

    def sections(self, sources: Mapping[str, ArtifactInput]) -> list[Section]:
        made = ((label, each.spec, each.folder) for label, each in sources.items() if isinstance(each.spec, Analyze))
        return [section for label, spec, folder in made for section in sections(label, spec.analysis, folder)]

    def missing(self, collection: Facts) -> Iterator[str]:
        for each in self.analysis:
            yield from (f"{_FIELD}.{problem}" for problem in each.missing(collection))

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"analyses/{recipe.name}": "."}

    def make(self, context: "StageContext[Analyze]") -> Facts:
        for each in self.analysis:
            write_analysis(each, Artifacts(context, each), context.folder)
        return {"analyses": [each.name for each in self.analysis]}


@dataclass(frozen=True)
class Artifacts(AnalysisInputs):
    """The inputs of one analysis of a stage: artifacts of the recipe."""

    context: "StageContext[Analyze]"
    analysis: Analysis

    def __post_init__(self) -> None:
        for name in ("split", "relevance_level", "seed"):
            object.__setattr__(self, name, getattr(self.context.spec, name))

    def _input(self, path: str) -> ArtifactInput:
        return self.context.inputs[f"{_FIELD}.{self.analysis.name}.{path}"]

    @cached_property
    def _collection(self) -> StoredCollection:
        return inputs.open_collection(self.context.inputs[layout.DATASET])

    def location(self, path: str) -> str:
        return f"{self.context.name}.{_FIELD}.{self.analysis.name}.{path}"

    def label(self, path: str) -> str:
        return next(name for each, name, _ in self.analysis.references() if each == path)

    def run(self, path: str) -> runs.Run:
        run = runs.read_run(self._input(path).folder / layout.RUN)
        return without_excluded(run, self._collection.excluded()) if layout.DATASET in self.context.inputs else run

    def stream(self, path: str) -> Iterator[tuple[str, types.RankedList]]:
        return runs.stream_run(self._input(path).folder / layout.RUN)

    def lists(self, path: str, query_ids: Sequence[str]) -> Iterator[types.RankedList]:
        return runs.lists_in_order(self._input(path).folder / layout.RUN, query_ids)

    def query_ids(self, path: str, split: str) -> Sequence[str]:
        return self._collection.queries(split).query_ids

    def qrels(self) -> Qrels:
        return self._collection.judged(self.split)

    def positives(self) -> dict[str, list[str]]:
        return positives(self._collection.qrels(self.split), self.relevance_level)

    def relevant(self) -> Mapping[str, Sequence[str]]:
        return positives(self._collection.all_qrels())

    def withheld(self) -> Mapping[str, Sequence[str]]:
        return positives(self._collection.withheld())

    def queries(self, split: str | None) -> Mapping[str, str]:
        splits = self._collection.splits if split is None else [split]
        return {query.query_id: query.text for name in splits for query in self._collection.queries(name)}

    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        rows = (corpus := self._collection.corpus).rows(doc_ids)
        return {document.doc_id: document.contents for document in corpus.documents_at(rows[rows >= 0])}

    def copies(self, doc_ids: Sequence[str]) -> Sequence[str]:
        rows = (corpus := self._collection.corpus).rows(doc_ids)
        return corpus.ids(corpus.copies(rows[rows >= 0]))

    def groups(self) -> Mapping[str, str]:
        return self._collection.groups("document")

    def negatives(self, path: str) -> Path:
        return self._input(path).folder / layout.NEGATIVES

    def mined(self, path: str) -> tuple[Path, Path]:
        return self._input(path).folder / layout.DROPPED, self._input(path).folder / layout.NEGATIVES

    def history(self, path: str) -> list[Record]:
        return list(History(self._input(path).folder / layout.HISTORY).read())

    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        source = self._input(path)
        return source.spec.artifact_type if source.spec is not None else "model", source.facts

    def measured(self, path: str) -> Measured:
        return read_metrics(self._input(path).folder / layout.METRICS)

    def index(self, path: str) -> tuple[Path, int | None]:
        return self._input(path).part("index"), len(self._collection.corpus)

    def system(self, index: str, model: str) -> System:
        from hardneg.indexes.exact import ExactOptions

        device, progress, corpus = self.context.device, self.context.progress, self._collection.corpus
        searcher = inputs.open_searcher(self._input(index), self._collection, device, progress)
        assert isinstance(searcher, DenseSearcher)
        opened = cache(partial(inputs.open_encoder, self._input(model), device, "fp32"))

        def encode(side: spec.Side, texts: Sequence[str]) -> NDArray[np.float32]:
            return cast(
                NDArray[np.float32], opened().encode(texts, side, protocol.EncodeOptions(precision="fp32"), progress)
            )

        where, sides = str(ExactOptions(device=device).where), (partial(encode, "query"), partial(encode, "document"))
        return System(searcher, corpus.doc_ids, corpus.rows, sides[0], where, sides[1])
