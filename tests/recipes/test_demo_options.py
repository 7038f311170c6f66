"""What a `paper` preset has in common with its demo is the paper's too, and did not just stay there."""

from collections.abc import Iterator
from typing import Any

import pytest
from recipes.recipes import NEEDS_PAPERS, with_a_paper_preset

from hardneg.recipes import expand, find_recipe

pytestmark = NEEDS_PAPERS

COMMON = {
    # STAR and ADORE, sections 6 and 7.3.
    "loss.cut": ((200, 10), "MRR@200 for passages, MRR@10 for documents"),
    "loss.pairs": (("own", "mined", "all"), "BM25 Neg: its own negatives, Rand Neg: the batch's, In-Batch Neg: all"),
    "loss.name": (
        ("lambda", "ranknet", "star", "nll", "hardest", "infonce", "triplet", "margin-mse"),
        "the loss is the method",
    ),
    "options.batch_size": ((32, 8, 6), "ADORE 32; ANCE MaxP 8 documents at a time; CoRT 6; ance-times looks at 8"),
    "options.negatives_per_query": ((0, 1, 4), "none in the batch alone, one beside it, four of RocketQA's reranker"),
    "backend.subvectors": ((6, 12, 24, 48, 96), "ADORE, Table 5"),
    "options.decay": (("constant",), "Figure 4 looks at one rate"),
    "options.keep_best": ((False,), "a curve over steps has the weights of each, not the best until then"),
    "watch.queries": ((200,), "how many training queries a curve is drawn of: ours"),
    "watch.depth": ((200,), "the top 200"),
    # ANCE, section 5, and its program.
    "refresh.depth": ((200,), "one negative is drawn of the top 200"),
    "refresh.negatives": ((20, 100), "the program keeps 20 of them, and 100 on questions"),
    "refresh.without_answers": ((True,), "on questions a negative has no answer"),
    "miner.ratio": ((1.0,), "BM25 and random negatives one to one"),
    # RocketQA, section 4, and its program.
    "above": ((0.9,), "labels above .9"),
    "below": ((0.1,), "negatives below .1"),
    "miner.below": ((0.1,), "negatives below .1"),
    "options.weight_decay": ((0.0, 0.1), "RocketQA has Adam, CoRT a decay of .1"),
    "options.warmup_ratio": ((0.1,), "a tenth of the steps"),
    "reranker.length": ((160,), "tokens of a pair"),
    # CoRT, sections 3 and A.
    "loss": (("bce",), "ELECTRA's pairs"),
    "loss.margin": ((0.1,), "the margin"),
    "miner.skip": ((7,), "from rank 8 on"),
    "query_token_type": ((1,), "queries have segment 1"),
    # DPR.
    "options.positive": (("first",), "the gold passage"),
    "without_answers": ((True,), "a negative has no answer"),
    "twins": ((True,), "two encoders"),
    # TAS-B, sections 3.1 and 3.2.
    "loss.in_batch": ((0.75,), "the weight of the teacher of the batch"),
    "options.negatives_drawn": (("margin_bins",), "the method"),
    # Depths and sizes.
    "depth": (
        (50, 100, 110, 150, 200, 210, 1000),
        "100 or 200 negatives and the positives that are left out; 150 before those with an answer go; a reader 50",
    ),
    "miner.depth": ((1, 4, 50, 100, 200, 1000), "what is drawn from, or as many of the top as are trained on"),
    "miner.count": ((1, 4, 20, 50, 100, 200), "as many as are kept for each query, of which a step draws"),
    "count": ((1,), "one negative for each labelled question of NQ"),
    "test_share": ((0,), "GPL: all written queries are for training"),
    "positives": ((True,), "positives are scored for filters"),
    "query_length": ((32,), "of STAR, SimANS and ANCE-Tele"),
    "document_length": ((128,), "of RocketQA"),
    "encoder.dimension": ((128,), "of ColBERT"),
    "loss.temperature": ((1.0,), "inner products as they are"),
}
"""By its path what is in demo and paper alike, and why that is right."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    else:
        yield ".".join(path), value


def kept(name: str) -> Iterator[tuple[str, str, Any]]:
    """Stage, path and value of each number, and of each option of a training, that the preset leaves as it was."""
    demo, paper = (expand(find_recipe(name), preset, []).tree for preset in ("demo", "paper"))
    before = {**demo["stages"], "model": demo["model"]}
    for stage, spec in {**paper["stages"], "model": paper["model"]}.items():
        there = dict(leaves(before.get(stage, {})))
        for path, value in leaves(spec) if spec.get("stage") != "analyze" else ():
            told = isinstance(value, int | float) or path.split(".")[0] in ("loss", "options")
            if told and path in there and there[path] == value:
                yield stage, path, value


@pytest.mark.slow
def test_what_a_paper_preset_keeps_of_its_demo_is_the_papers() -> None:
    found = [(name, *each) for name in with_a_paper_preset() for each in kept(name)]
    wrong = [each for each in found if each[3] not in COMMON.get(each[2], ((), ""))[0]]
    assert not wrong
    assert {path for _, _, path, _ in found} == {*COMMON}
