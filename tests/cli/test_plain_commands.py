"""Stages as commands on plain files: no recipe file, the store of the recipes."""

import json
from pathlib import Path

import command_line
import numpy as np
import pytest
from pyarrow import parquet
from recipes.recipes import small_collection

import hardneg as hn
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run
from hardneg.functions.session import Session
from hardneg.recipes import Plan
from hardneg.records import DataError, HardnegError, RecipeError, UsageError
from tests.run_lists import doc_lists


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("plain")
    small_collection(folder / "data")
    (folder / "model").symlink_to(tiny_model)
    return folder


@pytest.fixture
def hardneg(place, monkeypatch):
    """Runs a command in the folder and gives what it printed on stdout; its errors are raised."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("HARDNEG_STORE", str(place / "store"))

    def run(*arguments):
        result = command_line.hardneg(*arguments)
        run.err = result.stderr
        return result.stdout

    return run


MODEL = "--dataset beir:data --model model --device cpu"
LENGTHS = "--set model.query_length=16 --set model.document_length=24"
MINE = f"mine {MODEL} {LENGTHS} --option miner.depth=10 --depth 20"


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_mine_writes_what_training_programs_read_and_the_store_remembers(hardneg):
    out = hardneg(f"{MINE} --form n-tuple --count 4 --output n.parquet")
    assert out.splitlines()[0] == "36 queries, 360 negatives mined"
    assert "candidates dropped: positive " in out and "n.parquet: 36 rows, form n-tuple" in out
    table = parquet.read_table("n.parquet")
    assert table.column_names == ["anchor", "positive", *(f"negative_{i}" for i in range(1, 5))]
    assert table["anchor"][0].as_py() == "old river" and table["positive"][0].as_py().startswith("the old river")
    out = hardneg(f"{MINE} --form tevatron-v2 --output v2.jsonl --corpus-output corpus.jsonl")
    assert hardneg.err.count("in the store") == 4
    assert len(lines("corpus.jsonl")) == 60 and len(lines("v2.jsonl")[0]["negative_document_ids"]) == 8
    with pytest.raises(HardnegError, match=r"no rows to write \(36 .*fewer than 11 negatives"):
        hardneg(f"{MINE} --count 11 --output none.jsonl")
    assert not Path("none.jsonl").exists()


def test_scores_of_positives_that_the_search_did_not_reach_are_the_models(hardneg):
    scored = f"{MINE} --form triplet --count 1 --scores --output"
    hardneg(f"{scored} deep.jsonl --depth 60")
    hardneg(f"{scored} flat.jsonl --depth 2 --option miner.depth=1")
    deep, flat = ({row["anchor"]: row["scores"][0] for row in lines(name)} for name in ("deep.jsonl", "flat.jsonl"))
    assert len(deep) == len(flat) == 36
    np.testing.assert_allclose([deep[name] for name in flat], list(flat.values()), atol=1e-5)


def test_mine_from_anyones_run(hardneg, place):
    rows = ["q3 Q0 d3 1 9 x", "q3 Q0 d40 2 8 x", "q3 Q0 gone 3 7 x", "q0 Q0 d41 1 2 x", "q0 Q0 d42 2 2 x"]
    (place / "run.txt").write_text("\n".join([*rows, "q59 Q0 d1 1 1 x"]) + "\n")
    command = "mine --dataset beir:data --run run.txt --form tevatron-v1 --output run.jsonl"
    out = hardneg(command)
    found = {row["query_id"]: [item["docid"] for item in row["negative_passages"]] for row in lines("run.jsonl")}
    assert found == {"q0": ["d42", "d41"], "q3": ["d40"]}  # as trec_eval orders ties
    assert "dropped: positive 1" in out, out
    for what in ("run queries that are not in the split", "documents that are not in the corpus"):
        assert f"{what}: 1" in out, out
    out = hardneg(f"{command} --output scored.jsonl --form triplet --scores")
    assert "rows left out: a document has no score: 2" in out
    assert lines("scored.jsonl")[0]["scores"] == [9, 8]
    (place / "run.txt").write_text("q59 Q0 d1 1 1 x\n")
    with pytest.raises(DataError, match="the run has no query of split train"):
        hardneg(command)


def test_a_run_is_filtered_by_the_scores_of_another(hardneg, place):
    (place / "dense.txt").write_text("q3 Q0 d3 1 9 x\nq3 Q0 d40 2 8 x\nq3 Q0 d41 3 7 x\n")
    (place / "ce.txt").write_text("q3 Q0 d40 1 0.9 x\nq3 Q0 d3 2 0.8 x\nq3 Q0 d41 3 0.01 x\nq3 Q0 gone 3 0 x\n")
    command = "mine --dataset beir:data --run dense.txt --output negatives.arrow"
    filtered = f"{command} --form hardneg --miner denoised --filter-by ce.txt"
    out = hardneg(f"{filtered} --dropped dropped.arrow")
    assert "dropped: positive 1, score 1" in out and "scores: run documents that are not in the corpus: 1" in out
    (row,) = [item for item in read_negatives(place / "negatives.arrow") if item.negatives]
    assert (row.query_id, row.negatives) == ("q3", ["d41"]) and row.scores.tolist() == [7]
    assert "rank 2 d40" in hardneg("analyze denoising dropped.arrow")
    with pytest.raises(UsageError, match="this miner records no dropped candidates"):
        hardneg(f"{command} --form hardneg --dropped dropped.arrow")
    with pytest.raises(UsageError, match="--filter-by needs --run"):
        hardneg(f"{MINE} --output x.jsonl --filter-by ce.txt")


def test_export_turns_one_form_into_another(hardneg):
    hardneg(f"{MINE} --form hardneg --count 5 --output own.arrow")
    export = "export --dataset beir:data --negatives"
    hardneg(f"{export} own.arrow --form dpr --output a.json")
    hardneg(f"{export} a.json --from dpr --form flagembedding --output b.jsonl")
    out = hardneg(f"{export} b.jsonl --from flagembedding --form tevatron-v1 --output c.jsonl")
    assert "left out" not in out
    hardneg(f"{export} own.arrow --form tevatron-v1 --output d.jsonl")
    assert lines("c.jsonl") == lines("d.jsonl")
    assert json.loads(Path("a.json").read_text())[0]["hard_negative_ctxs"][0]["score"] > 0


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("--output x.csv", UsageError, "must end in .parquet or .jsonl"),
        ("--output x.jsonl --form tuple --miner topkk", UsageError, "did you mean 'topk'"),
        ("--output x.jsonl --miner topkk --form tuple", UsageError, "available: triplet"),
        ("--output x.jsonl --form tevatron-v2", UsageError, "--corpus-output and"),
        ("--output x.jsonl --run run.txt", UsageError, "exactly one of"),
        ("--output x.jsonl --miner topkk", RecipeError, "did you mean 'topk'"),
        ("--output x.jsonl --option depht=3", RecipeError, "depht"),
        ("--output x.jsonl --option depth", UsageError, "KEY=VALUE"),
        ("--output x.jsonl --split nothing", DataError, "no split 'nothing'"),
    ],
)
def test_wrong_uses_of_mine(hardneg, words, error, message):
    with pytest.raises(error) as caught:
        hardneg(f"{MINE} {words}")
    assert message in str(caught.value)
    assert not Path("x.jsonl").exists()


def test_encode_and_search_write_what_others_open(hardneg, place):
    assert hardneg(f"encode {MODEL} {LENGTHS} --output index") == "index\n"
    assert sorted(path.name for path in Path("index").iterdir()) == ["docid", "index"]
    hardneg(f"encode {MODEL} {LENGTHS} --output index")
    hardneg(f"search {MODEL} {LENGTHS} --depth 7 --output test.trec.gz")
    run = read_run(Path("test.trec.gz"))
    assert len(list(run)) == 14 and {len(doc_ids) for doc_ids in doc_lists(run)} == {7}
    (place / "full").mkdir()
    (place / "full" / "thesis.txt").touch()
    for command, output in [("encode", "full"), ("search", "full"), ("search", "x.txt"), ("encode", "run.txt")]:
        with pytest.raises(UsageError):
            hardneg(f"{command} {MODEL} --output {output}")
    with pytest.raises(UsageError, match=r"either --model or|exactly one of"):
        hardneg("search --dataset beir:data --output x.trec.gz")


def test_search_ranks_the_candidates_of_an_index_over_texts(hardneg, place, monkeypatch):
    plans: list[Plan] = []
    monkeypatch.setattr(Session, "make", lambda session, plan, *more: plans.append(plan) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hn.search("beir:data", "model", candidates="bm25", depth=9, store=place / "store")
    steps = plans[0].steps
    verbs = {path: steps[step].verb for path, step in steps["run"].inputs.items() if step != "start"}
    assert verbs == {"index": "encode", "candidates": "search", "dataset": "dataset"}
    assert steps[steps["candidates"].inputs["index"]].spec.backend.name == "bm25"
    assert steps["candidates"].spec.depth == steps["run"].spec.depth == 9
    line = "search --dataset beir:data --backend bm25 --candidates bm25 --output x.trec.gz"
    with pytest.raises(UsageError, match="to rank them"):
        hardneg(line)


def test_train_gives_a_sentence_transformer(hardneg):
    steps = "--train-option max_steps=2 --train-option batch_size=4 --option miner.depth=5 --depth 10"
    for _ in range(2):
        hardneg(f"train {MODEL} {LENGTHS} {steps} --output trained")
    from sentence_transformers import SentenceTransformer

    assert SentenceTransformer("trained", device="cpu").encode(["old river"]).shape == (1, 32)


def test_index_import(hardneg, place):
    np.save("v.npy", np.eye(3, dtype=np.float32))
    (place / "ids.txt").write_text("a\nb\nc\n")
    command = "index import --vectors v.npy --ids ids.txt --output imported"
    (place / "ids.txt").write_text("a\nb\na\n")
    with pytest.raises(DataError, match=r"ids.txt:3: id 'a' already occurs at ids.txt:1"):
        hardneg(command)
    assert not (place / "imported").exists() and not (place / "imported.partial").exists()
    (place / "ids.txt").write_text("a\nb\nc\n")
    assert hardneg(command) == "imported: 3 vectors of dimension 3\n"
    assert not list(place.glob(".imported*"))
    with pytest.raises(DataError, match=r"v\.npy: a \.npy array has no ids; also give a file of ids"):
        hardneg("index import --vectors v.npy --output other")
