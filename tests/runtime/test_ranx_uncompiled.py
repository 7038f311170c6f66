"""ranx is compiled where its user has it so, and imported where the user's home cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

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


HOME = "IR_DATASETS_HOME"


def test_evaluate_where_the_home_cannot_be_written_or_a_variable_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, in which nothing can be made")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "run").write_text("q1 Q0 d1 1 1 x\n")
    words = ["evaluate", "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run"), "--metrics", "mrr@10"]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "HARDNEG_STORE": str(tmp_path / "store")}
    environment.pop(HOME, None)
    command = [sys.executable, "-m", "hardneg", *words]
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == 0 and "1.0000" in done.stdout, done.stderr
    environment |= {"NUMBA_NUM_THREADS": "abc"}
    (told,) = subprocess.run(command, text=True, capture_output=True, env=environment).stderr.splitlines()
    assert "numba rejects" in told and "NUMBA_NUM_THREADS=abc" in told and told.endswith("unset this variable"), told
