"""A reader judged on dev questions while it trains."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hardneg.data.corpus import Corpus
from hardneg.errors import TrainingError
from hardneg.evaluation.exact_match import exact_match, f1
from hardneg.reading.answering import Question, ReadOptions, read
from hardneg.reading.reader import Reader


def reading_validation(
    reader: Reader, corpus: Corpus, questions: Sequence[Question], answers: Mapping[str, Sequence[str]]
) -> Callable[[], dict[str, float]]:
    """Measures exact match and F1 over the questions that have answers; each reads all of its passages.

    Raises:
        TrainingError: no question has an answer.
    """
    asked = [question for question in questions if answers.get(question.query_id)]
    if not asked:
        raise TrainingError(f"none of the {len(questions)} dev questions has an answer: take more of them")
    deepest = max(len(question.rows) for question in asked) or 1

    def measure() -> dict[str, float]:
        found = read(reader, corpus, asked, ReadOptions((deepest,)))
        pairs = [(answer[deepest].text, answers[question.query_id]) for question, answer in found]
        measures = {"exact_match": exact_match, "f1": f1}
        return {name: float(np.mean([score(*pair) for pair in pairs])) for name, score in measures.items()}

    return measure
