"""What no argument can be is told in one line that names the argument, before any work."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from recipes.recipes import small_collection
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.functions.mine import training_stage
from hardneg.records import HardnegError, UsageError
from hardneg.stages.train import Train

DATA = {
    "corpus": {"d1": "one river", "d2": "a hill", "d3": "a lake"},
    "queries": {"q1": "river"},
    "qrels": {"q1": {"d1": 1}},
}
RUN = {"q1": {"d2": 2.0, "d1": 1.0}}
QRELS = DATA["qrels"]
TWO = {"one": RUN, "two": {"q1": {"d3": 1.0}}}
NAN, INF = float("nan"), float("inf")
MODEL = "packaged:wordllama"


def measure(**options: Any) -> Any:
    return hn.evaluate(RUN, QRELS, metrics=["mrr@10"], **options)


HUGE = {"batch_size": 10**6, "max_steps": 1}
NO_PATHS = (None, 5, "", b"x", [], {}, "x" * 5000, "a\0b")
CASES: list[tuple[str, Callable[..., Any]]] = [
    *((r"folder: must be a path", lambda at, bad=bad: hn.start(bad)) for bad in NO_PATHS),
    *((r"query_groups: must be a path", lambda at, bad=bad: measure(query_groups=bad)) for bad in NO_PATHS[1:]),
    *((r"store: must be a path", lambda at, bad=bad: hn.mine(DATA, run=RUN, store=bad)) for bad in (4, b"x", "/a\0b")),
    (r"batch_size 1,000,000 would repeat", lambda at: hn.train(DATA, MODEL, options=HUGE, device="cpu", store=at)),
    (r"device: must be a name", lambda at: hn.mine(DATA, run=RUN, store=at, device=torch.device("cpu"))),
    (r"seed: must be a whole number", lambda at: hn.mine(DATA, run=RUN, store=at, seed=True)),
    (r"settings: must be a name", lambda at: hn.mine(DATA, run=RUN, store=at, settings=[4])),
    (r"settings: seed: must be a finite number", lambda at: hn.mine(DATA, run=RUN, store=at, settings={"seed": NAN})),
    (r"dataset: .* is not a valid name \(File name too long\)", lambda at: hn.mine("d" * 5000, run=RUN, store=at)),
    (r"model: must be a name", lambda at: hn.mine(DATA, "", store=at)),
    (r"miner: must be a name", lambda at: hn.mine(DATA, run=RUN, store=at, miner={"depth": 3})),
    (r"query_vectors: must be a path", lambda at: hn.mine(DATA, index="i", query_vectors=np.eye(2), store=at)),
    (r"answer_match: must be 'string' or 'regex'", lambda at: hn.evaluate(RUN, QRELS, answer_match="re", store=at)),
    *(
        (r"relevance_level: must be", lambda at, bad=bad: hn.evaluate(RUN, QRELS, relevance_level=bad, store=at))
        for bad in ("1", None, NAN, 1.5, 0, True)
    ),
    (r"run\['q1'\]\['d1'\]: must be a finite 32-bit", lambda at: hn.evaluate({"q1": {"d1": 10**400}}, QRELS, store=at)),
    (r"run: id 1 must be a string", lambda at: hn.evaluate({1: {"d1": 1.0}}, QRELS, store=at)),
    (r"weights: must be a mapping", lambda at: hn.fuse(TWO, weights=[1, 2], store=at)),
    *(
        (r"weights.two: must be", lambda at, bad=bad: hn.fuse(TWO, weights={"two": bad}, store=at))
        for bad in ("1", NAN, INF)
    ),
    *((r"depth: must be", lambda at, bad=bad: hn.fuse(TWO, depth=bad, store=at)) for bad in ("3", 0, -1, 1.5)),
    *(
        (r"constant: must be", lambda at, bad=bad: hn.fuse(TWO, "reciprocal-rank", constant=bad, store=at))
        for bad in (-60.5, -1, "60")
    ),
    (r"backend: .*k1: must be a finite number", lambda at: hn.index(DATA, {"name": "bm25", "k1": NAN}, store=at)),
    (r"reranker: must be a name", lambda at: hn.rerank(DATA, RUN, 3, store=at)),
    (r"options: must be a dict", lambda at: hn.train(DATA, MODEL, options=["max_steps=2"], store=at)),
    (
        r"learning_rate: must be a finite",
        lambda at: hn.train(DATA, MODEL, options={"learning_rate": "1e400"}, store=at),
    ),
    (r"name: must be a path", lambda at: hn.load_recipe(3)),
    (r"no recipe 'star-pasage'; did you mean 'star-passage'", lambda at: hn.load_recipe("star-pasage")),
    (r"set: must be a name", lambda at: hn.load_recipe("star-passage").set(3)),
    (r"stages.star.dept: no such option", lambda at: hn.load_recipe("star-passage").set("stages.star.dept=3")),
    (r"output: must be a path", lambda at: hn.load_recipe("star-passage").run(3, store=at)),
]


@pytest.mark.parametrize(("told", "call"), CASES, ids=[f"{number} {told}" for number, (told, _) in enumerate(CASES)])
def test_what_an_argument_cannot_be(told, call, tmp_path):
    with pytest.raises(HardnegError, match=told):
        call(tmp_path / "store")
    assert not list((tmp_path / "store").glob("artifacts/*"))


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return hn.mine(DATA, run=RUN, store=tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("bad", [-1, 0, "2", 1.5, True])
def test_a_count_of_negatives(mined, tmp_path, bad):
    for call in (
        lambda: mined.to_dataset("triplet", negatives=bad),
        lambda: mined.write(tmp_path / "a.jsonl", negatives=bad),
    ):
        with pytest.raises(HardnegError, match="negatives: must be"):
            call()


def test_no_query_has_so_many_negatives(mined, tmp_path):
    (tmp_path / "mined.jsonl").write_text("as it was")
    told = r"form n-tuple: no rows to write \(1 rows left out: fewer than 99 negatives\)"
    for call in (
        lambda: mined.to_dataset(negatives=99),
        lambda: mined.write(tmp_path / "mined.jsonl", negatives=99, overwrite=True),
    ):
        with pytest.raises(HardnegError, match=told):
            call()
    assert (tmp_path / "mined.jsonl").read_text() == "as it was"
    assert len(mined.to_dataset(negatives=1)) == 1


def test_what_was_mined_from_is_never_replaced(tmp_path):
    folder, run = small_collection(tmp_path / "data"), tmp_path / "run.jsonl"
    run.write_text("q1 Q0 d3 1 1 x\n")
    mined = hn.mine(folder, run=run, store=tmp_path / "store")
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", run):
        before = path.read_bytes()
        with pytest.raises(UsageError, match="which is an input; give another path"):
            mined.write(path, negatives=1, overwrite=True)
        assert path.read_bytes() == before
    assert mined.write(tmp_path / "mined.jsonl", negatives=1)["rows"] == 1


@pytest.mark.parametrize("settings", [["garbage"], ["stages.x.depth=1"], {"seed": 3}])
def test_settings_are_refused_where_no_recipe_is_made(tmp_path, settings):
    run, qrels = tmp_path / "a.trec", tmp_path / "q.txt"
    run.write_text("q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\n")
    other = shutil.copy(run, tmp_path / "b.trec")
    qrels.write_text("q1 0 d1 1\n")
    for call in (
        lambda: hn.evaluate([run], qrels, settings=settings),
        lambda: hn.fuse([run, other], settings=settings),
        lambda: hn.analyze("overlap", runs=[run], settings=settings),
    ):
        with pytest.raises(UsageError, match="settings: there is no recipe to change; omit this option"):
            call()
    arguments = ["evaluate", "--run", str(run), "--run", other, "--qrels", str(qrels), "--set", "a.b=1"]
    told = CliRunner().invoke(app, list(map(str, arguments)))
    assert str(told.exception) == "--set: there is no recipe to change; omit this option"


def test_options_stand_where_the_stage_has_them() -> None:
    given = {"max_steps": 2, "self_mask": 0.1, "dims": [8], "loss": "kl"}
    made = training_stage({"loss": "star", "negatives": "mined"}, given)
    within = {"max_steps": 2, "loss": "kl"}  # the loss has an argument of its own, so that this one is refused
    own = {"negatives": "mined", "self_mask": 0.1, "dims": [8], "options": within}
    assert made == {"stage": "train", "loss": "star", **own}
    del made["options"]["loss"]
    spec = Train.model_validate(made)
    assert (spec.self_mask, spec.dims, spec.options.max_steps) == (0.1, {8: 1.0}, 2)
