"""Verb `read`: answers read from the first passages of a run, and measured against the known ones."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hardneg.plugin import (
    FREE,
    MEASURED,
    ArtifactInput,
    Facts,
    Name,
    RecipeView,
    Reference,
    Row,
    Sizes,
    StageContext,
    StageSpec,
    StoredCollection,
    Trait,
    has_answers,
    layout,
)
from hardneg_reader.exact_match import exact_match, f1

if TYPE_CHECKING:
    from hardneg.plugin import Section
    from hardneg_reader.answering import Answer, Question

SYSTEM = "reader"
"""The name of what was measured in the metrics of an artifact."""
_MEASURES = {"exact_match": exact_match, "f1": f1}
_Passages = Annotated[int, Field(gt=0)]


class Read(StageSpec):
    """Reads the answers to the questions of one split from the first passages of a run, and measures them.

    passages: how many to read; several numbers give answers and measures for each.
    """

    version = 1
    artifact_type = "answers"
    purpose = "find answers in the passages of a run"
    needs_dataset = True
    resumes = True
    stage: Literal["read"]
    reader: Annotated[Name, Reference(("reader",))]
    run: Annotated[Name, replace(MEASURED, passes=(Trait.OWN_QUERIES,))]
    split: Name = "test"
    passages: Annotated[tuple[_Passages, ...], BeforeValidator(lambda v: (v,) if isinstance(v, int) else v)] = Field(
        (100,), min_length=1
    )
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers to measure by."""
        if not has_answers(collection, self.split):
            yield f"split: {self.split} has no answers: take another split or dataset"

    def estimate(self, sizes: Sizes) -> Row:
        """One pass over all passages."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * 300)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """The answers, and their measures by question."""
        return {f"answers/{recipe.name}.jsonl": layout.ANSWERS, f"answers/{recipe.name}-metrics.json": layout.METRICS}

    def sections(self, sources: Mapping[str, ArtifactInput]) -> "list[Section]":
        """One table of all that was read."""
        from hardneg_reader.report import reading_section

        return [reading_section({label: source.folder / layout.METRICS for label, source in sources.items()})]

    def make(self, context: "StageContext[Read]") -> Facts:
        """Writes answers, window by window, and their measures by question; goes on behind the last whole window."""
        collection = StoredCollection.open(context.inputs["dataset"].folder)
        context.keep_only(layout.ANSWERS)
        path, total = context.folder / layout.ANSWERS, len(collection.queries(self.split))
        done = _whole_windows(path)
        with (
            context.progress.task("reading", total, "questions", done=done) as task,
            path.open("a", encoding="utf-8") as file,
        ):
            for lines in self._windows(context, collection, done):
                file.write("".join(lines))
                file.flush()
                task.advance(len(lines))
        measured = _measured(path, context.folder / layout.METRICS, collection.answers(self.split), self.passages)
        return {**measured, "questions": total}

    def _windows(self, context: "StageContext[Read]", collection: StoredCollection, done: int) -> Iterator[list[str]]:
        from hardneg_reader.answering import WINDOW, ReadOptions, questions, read
        from hardneg_reader.reader import Reader

        pending = questions(collection, self.split, context.inputs["run"].folder / layout.RUN, max(self.passages))
        reader = Reader.open(context.inputs["reader"].folder / layout.MODEL_FOLDER, context.device)
        options = ReadOptions(self.passages, self.precision, self.tokens_per_batch)
        answered = read(reader, collection.corpus, islice(pending, done, None), options)
        while window := list(islice(answered, WINDOW)):
            yield [_line(question, answers) for question, answers in window]


def _whole_windows(path: Path) -> int:
    """How many questions were read before; cuts off what lies behind the last whole window."""
    from hardneg_reader.answering import WINDOW

    if not path.exists():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = sum(line.endswith(b"\n") for line in lines) // WINDOW * WINDOW
    with path.open("r+b") as file:
        file.truncate(sum(map(len, lines[:whole])))
    return whole


def _line(question: "Question", answers: "Mapping[int, Answer]") -> str:
    """The answer from the most passages, and the texts of all, by number of passages."""
    last = answers[max(answers)]
    row: dict[str, Any] = {"query_id": question.query_id, "answer": last.text}
    if last.doc_id:
        row |= {"doc_id": last.doc_id, "begin": last.begin, "end": last.end}
        row |= {"selected": round(last.selected, 6), "span": round(last.span, 6)}
    row["by_passages"] = {str(count): answer.text for count, answer in answers.items()}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _measured(
    read: Path, metrics: Path, answers: Mapping[str, Sequence[str]], passages: Sequence[int]
) -> dict[str, Any]:
    """Writes the measures of the questions that have answers; returns their means, and how many have none."""
    from hardneg.plugin import Measured, means, write_metrics

    with read.open(encoding="utf-8") as lines:
        scores, without = _scores(map(json.loads, lines), answers, passages)
    write_metrics(metrics, Measured({SYSTEM: scores}))
    left_out = {"questions without answers": without} if without else {}
    return {**{name: round(mean, 6) for name, mean in means(scores).items()}, **left_out}


def _scores(
    rows: Iterable[Mapping[str, Any]], answers: Mapping[str, Sequence[str]], passages: Sequence[int]
) -> tuple[dict[str, dict[str, float]], int]:
    scores: dict[str, dict[str, float]] = {f"{name}@{count}": {} for name in _MEASURES for count in passages}
    without = 0
    for row in rows:
        known = answers.get(row["query_id"], ())
        without += not known
        if known:
            for name, measure in _MEASURES.items():
                for count in passages:
                    scores[f"{name}@{count}"][row["query_id"]] = measure(row["by_passages"][str(count)], known)
    return scores, without
