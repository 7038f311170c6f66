"""Stage `read`: answers read from the first passages of a run, and measured against the known ones."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hardneg.data.collection import StoredCollection
from hardneg.evaluation.exact_match import exact_match, f1
from hardneg.layout import ANSWERS, METRICS, MODEL_FOLDER
from hardneg.reading.answering import WINDOW, Answer, Question, ReadOptions, read
from hardneg.reading.reader import Reader
from hardneg.stages.asking import questions
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection

SYSTEM = "reader"
_MEASURES = {"exact_match": exact_match, "f1": f1}


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Writes the answers, window by window, and their measures by question; goes on behind the last whole window."""
    collection, path = open_collection(work.inputs["dataset"]), work.folder / ANSWERS
    work.keep_only(ANSWERS)
    answers = collection.answers(work.spec.split)
    total, done = len(collection.queries(work.spec.split)), _whole_windows(path)
    with work.progress.task("reading", total, "questions", done=done) as task, path.open("a", encoding="utf-8") as file:
        for lines in _windows(work, collection, done):
            file.write("".join(lines))
            file.flush()
            task.advance(len(lines))
    return {**_measured(work, path, answers), "questions": total}


def _whole_windows(path: Path) -> int:
    """How many questions were read before; cuts off what lies behind the last whole window."""
    if not path.exists():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = sum(line.endswith(b"\n") for line in lines) // WINDOW * WINDOW
    with path.open("r+b") as file:
        file.truncate(sum(map(len, lines[:whole])))
    return whole


def _windows(work: StageContext[Any], collection: StoredCollection, done: int) -> Iterator[list[str]]:
    spec = work.spec
    asked = questions(collection, spec.split, work.inputs["run"], max(spec.passages))
    reader = Reader.open(work.inputs["reader"].folder / MODEL_FOLDER, work.device)
    options = ReadOptions(spec.passages, spec.precision, spec.tokens_per_batch)
    found = read(reader, collection.corpus, islice(asked, done, None), options)
    while window := list(islice(found, WINDOW)):
        yield [_line(question, answers) for question, answers in window]


def _line(question: Question, answers: Mapping[int, Answer]) -> str:
    """The answer from the most passages, and the texts of all, by number of passages."""
    last = answers[max(answers)]
    row: dict[str, Any] = {"query_id": question.query_id, "answer": last.text}
    if last.doc_id:
        row |= {"doc_id": last.doc_id, "begin": last.begin, "end": last.end}
        row |= {"selected": round(last.selected, 6), "span": round(last.span, 6)}
    row["by_passages"] = {str(count): answer.text for count, answer in answers.items()}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _measured(work: StageContext[Any], path: Path, answers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Writes the measures of the questions that have answers; returns their means, and how many have none."""
    from hardneg.evaluation.metrics import means
    from hardneg.evaluation.metrics_json import Measured, write_metrics

    with path.open(encoding="utf-8") as lines:
        scores, without = _scores(map(json.loads, lines), answers, work.spec.passages)
    write_metrics(work.folder / METRICS, Measured({SYSTEM: scores}))
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
