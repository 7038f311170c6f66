"""Verb `read`, which reads answers from the top passages of a run and compares them with the known answers."""

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

import hardneg.plugin as hp

if TYPE_CHECKING:
    from hardneg_reader.answering import Answer, Question

SYSTEM = "reader"
"""The name of the only system in the metrics file of a `read` stage."""
_Passages = Annotated[int, Field(gt=0)]
_COLUMNS = ("read from", "passages", "exact match", "95% interval", "F1", "difference", "t-test p", "randomised p")


def normalised(answer: str) -> str:
    """Normalise an answer for comparison: lower case, no ASCII punctuation, no articles, single spaces.

    Source: Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text (EMNLP 2016), section 6.1.
    """
    text = answer.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(read: str, answers: Sequence[str]) -> float:
    """Return 1 if the read answer equals one of `answers` after normalisation, else 0."""
    return float(normalised(read) in map(normalised, answers))


def f1(read: str, answers: Sequence[str]) -> float:
    """Return the harmonic mean of word precision and word recall, maximised over `answers`.

    If the read answer or a known answer has no words, F1 is 1 if neither has any, else 0. Without answers, it is 0.
    """
    return max((_overlap(normalised(read).split(), normalised(answer).split()) for answer in answers), default=0.0)


def _overlap(read: Sequence[str], answer: Sequence[str]) -> float:
    if not read or not answer:
        return float(not read and not answer)
    shared = (Counter(read) & Counter(answer)).total()
    return 2 * shared / (len(read) + len(answer))


MEASURES = {"exact_match": exact_match, "f1": f1}


class Read(hp.stages.StageSpec):
    """Reads the answers to the questions of one split from the top passages of a run, and evaluates them.

    passages: the number of passages to read; with several numbers, each has separate answers and metrics.
    """

    version = 1
    artifact_type = "answers"
    purpose = "find answers in the passages of a run"
    needs_dataset = True
    resumes = True
    stage: Literal["read"]
    reader: Annotated[hp.fields.Name, hp.fields.Reference(("reader",))]
    run: Annotated[hp.fields.Name, replace(hp.fields.MEASURED, passes=(hp.fields.Trait.OWN_QUERIES,))]
    split: hp.fields.Name = "test"
    passages: Annotated[tuple[_Passages, ...], BeforeValidator(lambda v: (v,) if isinstance(v, int) else v)] = Field(
        (100,), min_length=1
    )
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=hp.fields.FREE)

    def problems(self, recipe: hp.stages.RecipeView) -> Iterator[str]:
        """Yield a message if the split has no answers."""
        if recipe.collection is not None and not hp.fields.has_answers(recipe.collection, self.split):
            yield f"split: {self.split} has no answers; use another split or dataset"

    def estimate(self, sizes: hp.stages.Sizes) -> hp.stages.Row:
        """Return the number of questions of the split, and disk space of 300 bytes per question."""
        count = sizes.queries(self.split)
        return hp.stages.Row(count, "queries", count * 300)

    def publishes(self, recipe: hp.stages.RecipeView) -> Mapping[str, str]:
        """Return the artifact's files with answers and metrics, by path in the run folder."""
        return {
            f"answers/{recipe.name}.jsonl": hp.layout.ANSWERS,
            f"answers/{recipe.name}-metrics.json": hp.layout.METRICS,
        }

    def sections(self, sources: Mapping[str, hp.stages.ArtifactInput]) -> "list[hp.tables.Section]":
        """Return a table of exact match and F1, with tests of exact match against the first source in `sources`.

        Source: Qu et al., RocketQA (NAACL 2021), Table 5.
        """
        systems = {
            name: hp.metrics_files.read_metrics(item.folder / hp.layout.METRICS).results[SYSTEM]
            for name, item in sources.items()
        }
        first = next(iter(systems))
        matches = {
            label: {metric: scores[metric] for metric in systems[first] if metric in scores and metric[0] == "e"}
            for label, scores in systems.items()
        }
        tests = {(test.system, test.metric): test for test in hp.significance.compare_all(matches, (first,))}
        rows = []
        for label, scores in systems.items():
            means = hp.estimates(scores)
            for count in (metric.removeprefix("exact_match@") for metric in scores if metric[0] == "e"):
                match, tested = means[f"exact_match@{count}"], ["–"] * 3
                if test := tests.get((label, f"exact_match@{count}")):
                    p_values = map(hp.tables.p_value, (test.t_holm, test.randomisation_holm))
                    tested = [hp.tables.signed(test.difference), *p_values]
                measured = [hp.tables.number(match.mean), hp.tables.bounds(match.interval)]
                rows.append([label, count, *measured, hp.tables.number(means[f"f1@{count}"].mean), *tested])
        explained = (
            "An answer is an exact match if it equals a known answer after normalisation; F1 is over words. "
            "Differences in exact match, and p-values with Holm's correction, are relative to "
            f"{first} with the same number of passages."
        )
        return [hp.tables.Section("Reading", [hp.Table(_COLUMNS, rows)], explained)]

    def make(self, context: "hp.StageContext[Read]") -> hp.stages.Facts:
        """Write the answers, resuming after the last complete window of questions, then metrics; return their means."""
        collection = hp.StoredCollection.open(context.inputs["dataset"].folder)
        context.keep_only(hp.layout.ANSWERS)
        path, total = context.folder / hp.layout.ANSWERS, len(collection.queries(self.split))
        done = _whole_windows(path)
        with (
            context.progress.task("reading", total, "questions", done=done) as task,
            path.open("a", encoding="utf-8") as file,
        ):
            for lines in self._windows(context, collection, done):
                file.write("".join(lines))
                file.flush()
                task.advance(len(lines))
        measured = _measured(path, context.folder / hp.layout.METRICS, collection.answers(self.split), self.passages)
        return {**measured, "questions": total}

    def _windows(
        self, context: "hp.StageContext[Read]", collection: hp.StoredCollection, done: int
    ) -> Iterator[list[str]]:
        from hardneg_reader.answering import WINDOW, ReadOptions, questions, read
        from hardneg_reader.reader import Reader

        pending = questions(collection, self.split, context.inputs["run"].folder / hp.layout.RUN, max(self.passages))
        reader = Reader.open(context.inputs["reader"].folder / hp.layout.MODEL_FOLDER, context.device)
        options = ReadOptions(self.passages, self.precision, self.tokens_per_batch)
        answered = read(reader, collection.corpus, islice(pending, done, None), options)
        while window := list(islice(answered, WINDOW)):
            yield [_line(question, answers) for question, answers in window]


def _whole_windows(path: Path) -> int:
    """Return the number of questions already read, and truncate the file after the last complete window."""
    from hardneg_reader.answering import WINDOW

    if not path.exists():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = sum(line.endswith(b"\n") for line in lines) // WINDOW * WINDOW
    with path.open("r+b") as file:
        file.truncate(sum(map(len, lines[:whole])))
    return whole


def _line(question: "Question", answers: "Mapping[int, Answer]") -> str:
    """Return a JSON line with the answer from the most passages, and the answers by number of passages."""
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
    """Write the metrics of the questions with answers; return their means, and the number without answers."""
    scores: dict[str, dict[str, float]] = {f"{name}@{count}": {} for name in MEASURES for count in passages}
    without = 0
    with read.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            known = answers.get(row["query_id"], ())
            without += not known
            for name, measure in MEASURES.items() if known else ():
                for count in passages:
                    scores[f"{name}@{count}"][row["query_id"]] = measure(row["by_passages"][str(count)], known)
    hp.metrics_files.write_metrics(metrics, hp.metrics_files.Measured({SYSTEM: scores}))
    left_out = {"questions without answers": without} if without else {}
    return {**{name: round(mean, 6) for name, mean in hp.measuring.means(scores).items()}, **left_out}
