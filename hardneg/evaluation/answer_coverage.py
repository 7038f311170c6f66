"""Answer coverage: whether the top k of a question's list has a passage with one of the answers."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.data.answer_matching import PassageAnswers
from hardneg.data.runs import EMPTY, Run
from hardneg.evaluation.metrics import Scores

_NAME = re.compile(r"answer@([1-9][0-9]{0,8})")


def answer_cutoffs(names: Iterable[str]) -> dict[str, int]:
    """The cutoff of each name of the form `answer@k`; other names are left out."""
    return {name: int(match[1]) for name in names if (match := _NAME.fullmatch(name))}


def answer_coverage(run: Run, answers: PassageAnswers, query_ids: Sequence[str], cutoffs: Sequence[int]) -> Scores:
    """`answer@k` for each cutoff: 1 for a question with an answer in its top k, else 0.

    A question without a list has 0. Passages are looked into down to the first one with an answer, cutoff by cutoff.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, top-k
    accuracy; Xiong et al., ANCE (ICLR 2021), Table 2, coverage.
    """
    lists = [run.get(query_id, EMPTY).doc_ids for query_id in query_ids]
    first = _first_ranks(answers, query_ids, lists, sorted(cutoffs))
    return {f"answer@{k}": dict(zip(query_ids, (first <= k).astype(float).tolist(), strict=True)) for k in cutoffs}


def _first_ranks(
    answers: PassageAnswers, query_ids: Sequence[str], lists: Sequence[Sequence[str]], cutoffs: Sequence[int]
) -> NDArray[np.float64]:
    """The rank, from 1, of each question's first passage with an answer; infinite where the last cutoff has none."""
    first = np.full(len(query_ids), np.inf)
    for above, cutoff in zip([0, *cutoffs], cutoffs, strict=False):
        open_ = np.flatnonzero(np.isinf(first)).tolist()
        found = answers.in_lists([query_ids[i] for i in open_], [lists[i][above:cutoff] for i in open_])
        if found.any():
            ranks = np.where(found.any(1), above + 1 + found.argmax(1), np.inf)
            first[open_] = ranks
    return first
