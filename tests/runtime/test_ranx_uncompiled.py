"""ranx is compiled where its user has it so, and nobody else's functions lose the compiler."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
before = sys.argv[1:] == ["imported"]
if before:
    import ranx
import numba, numpy as np
from hardneg.evaluation.metrics import evaluate
from hardneg.evaluation.fusion import fused_by_ranx
from hardneg.records.types import RankedList
lists = [RankedList(["a", "b"], np.array([2.0, 1.0], np.float32)), RankedList(["c"], np.array([3.0], np.float32))]
scores = evaluate({"q": lists[0]}, {"q": {"b": 1}}, ["mrr@10"])
fused = fused_by_ranx([lists], "wsum", "none", {"weights": [1.0, 1.0]})[0]
from ranx.metrics.common import fix_k
others = numba.njit(lambda x: x + 1)
print(scores["mrr@10"]["q"], fused.doc_ids, hasattr(fix_k, "py_func"), hasattr(others, "py_func"))
"""


@pytest.mark.parametrize(
    ("words", "variable", "compiled"),
    [
        ([], None, "False True"),
        ([], "1", "False False"),
        pytest.param(["imported"], None, "True True", marks=pytest.mark.slow),
        pytest.param([], "0", "True True", marks=pytest.mark.slow),
    ],
)
def test_results_are_the_same_and_others_keep_the_compiler(words, variable, compiled) -> None:
    place = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    place |= {} if variable is None else {"NUMBA_DISABLE_JIT": variable}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], env=place, capture_output=True, text=True)
    assert done.stdout == f"0.5 ['c', 'a', 'b'] {compiled}\n", done.stderr
