"""`hardneg rerank` on plain files."""

import os
import signal
import sys
from pathlib import Path

import command_line
import forked
import pytest
from recipes.recipes import small_collection

from hardneg.formats.runs import read_run
from hardneg.records import DataError, RecipeError, UsageError
from tests.run_lists import doc_lists, score_lists

RUN = ["q46 Q0 d46 1 9 x", "q46 Q0 d1 2 8 x", "q46 Q0 gone 3 7 x", "q47 Q0 d2 1 2 x", "q0 Q0 d0 1 1 x"]


@pytest.fixture
def hardneg(session, tiny_reranker, monkeypatch):
    """Runs a command in a folder with a collection, a model and a run; gives what it printed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(session / "cache"))
    small_collection(session / "data")
    (session / "model").symlink_to(tiny_reranker)
    (session / "run.txt").write_text("\n".join(RUN) + "\n")
    given = ["rerank", "--dataset", "beir:data", "--run", "run.txt", "--device", "cpu"]
    return lambda *arguments: command_line.hardneg(*given, *arguments).stdout


def test_anyones_run_is_reranked(hardneg, tmp_path):
    out = hardneg("--reranker", "cross-encoder:model", "--option", "length=32", "--output", "best.trec.gz")
    assert out.splitlines()[0] == "best.trec.gz: 14 queries, 3 pairs scored"
    for told in ("run queries that are not in the split: 1", "documents that are not in the corpus: 1"):
        assert told in out, out
    found = read_run(tmp_path / "best.trec.gz")
    assert list(found) == ["q46", "q47"] and sorted(doc_lists(found)[0]) == ["d1", "d46"]
    assert ((score_lists(found)[0] > 0) & (score_lists(found)[0] < 1)).all()
    hardneg("--reranker", "cross-encoder:model", "--depth", "1", "--output", "first.trec.gz")
    assert [len(ids) for ids in doc_lists(read_run(tmp_path / "first.trec.gz"))] == [1, 1]


def test_mistakes_are_told(hardneg):
    model = ["--reranker", "cross-encoder:model", "--output"]
    with pytest.raises(UsageError, match=r"best.txt: runs are written gzipped"):
        hardneg(*model, "best.txt")
    with pytest.raises(RecipeError, match="unknown reranker 'cross-encodr'; did you mean 'cross-encoder'"):
        hardneg("--reranker", "cross-encodr:model", "--output", "best.trec.gz")
    with pytest.raises(RecipeError, match="lenght: cross-encoder has no such option; did you mean 'length'"):
        hardneg(*model, "best.trec.gz", "--option", "lenght=3")
    with pytest.raises(DataError, match="the run has no query of split dev"):
        hardneg(*model, "best.trec.gz", "--split", "dev")


IN_TWOS = 2048
"""A depth by which a block is of two queries."""


@pytest.mark.slow
def test_a_killed_command_goes_on_and_ends_with_the_same_bytes(hardneg, tmp_path, monkeypatch):
    """Killed behind the third of seven blocks; five documents a query."""
    lines = [f"q{i} Q0 d{i - j} {j + 1} {9 - j} x" for i in range(46, 60) for j in range(5)]
    (tmp_path / "run.txt").write_text("\n".join(lines) + "\n")
    model = ["--reranker", "cross-encoder:model", "--option", "length=32", "--depth", str(IN_TWOS), "--output"]
    given = ["rerank", "--dataset", "beir:data", "--run", "run.txt", "--device", "cpu", *model, "best.trec.gz"]
    program = [sys.executable, Path(__file__).with_name("killed_command.py"), "reranking", "3", *given]
    places = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = forked.run(program, env={**os.environ, **places}, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "best.trec.gz").exists()
    assert len([*tmp_path.rglob("blocks/*.npz")]) in (2, 3)  # the third may be under way
    hardneg(*model, "best.trec.gz")
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "other"))
    hardneg(*model, "whole.trec.gz")
    assert (tmp_path / "best.trec.gz").read_bytes() == (tmp_path / "whole.trec.gz").read_bytes()
