"""Each query's documents as mteb has noted them: as runs in TREC's form, with the judgements they are scored by."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import Run, ranked_by_others
from hardneg.formats.text_lines import one_word
from hardneg.records.errors import DataError
from hardneg.records.types import Judgement, RankedList

Noted = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""The scores of documents by subset, split and query, of a task's predictions."""


def read_predictions(path: Path) -> Noted:
    """The content of a file of mteb's predictions.

    Raises:
        DataError: it is not there, cut off, or no such file.
    """
    try:
        content = json.loads(path.read_bytes())
        return {str(name): dict(splits) for name, splits in content.items() if name != "mteb_model_meta"}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file: evaluate the model with mteb's prediction_folder first") from None
    except (OSError, ValueError, RecursionError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: not a file of mteb's predictions ({error})") from error


def task_run(task: Any, lists: Mapping[str, Mapping[str, float]]) -> Run:
    """The lists of one split as its task measures them: in trec_eval's order, with no equal scores.

    A document that is the query itself, and the first one, are left out where the task does that.

    Raises:
        DataError: a score is not finite.
    """
    return dict(_entries(lists, task.ignore_identical_ids, task.skip_first_result))


def _entries(
    lists: Mapping[str, Mapping[str, float]], no_identical: bool, no_first: bool
) -> Iterator[tuple[str, RankedList]]:
    for query_id, scores in lists.items():
        with np.errstate(over="ignore"):
            if not np.isfinite(np.fromiter(scores.values(), np.float32, len(scores))).all():
                raise DataError(f"query {query_id} has a score that is not a finite 32-bit number")
        others = {doc_id: score for doc_id, score in scores.items() if not (no_identical and doc_id == query_id)}
        ranked, start = ranked_by_others(others), int(no_first)
        yield word(query_id), RankedList([*map(word, ranked.doc_ids[start:])], ranked.scores[start:])


def task_qrels(task: Any, subset: str, split: str) -> Qrels:
    """The judgements of one split of a task whose data are loaded."""
    data = task.dataset.get(subset, task.dataset)
    judged = data[split]["relevant_docs"]
    return {
        word(query_id): {word(doc_id): int(grade) for doc_id, grade in grades.items()}
        for query_id, grades in judged.items()
        if grades
    }


def judgements(qrels: Qrels) -> Iterator[Judgement]:
    """One by one."""
    return (
        Judgement(query_id, doc_id, grade) for query_id, grades in qrels.items() for doc_id, grade in grades.items()
    )


def word(text: str) -> str:
    """An id for TREC files: white space encoded as in a URL, and so `%` in such an id."""
    return text if one_word(text) else quote(text, safe="") or "%"
