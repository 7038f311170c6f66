"""The functions of each verb, `write_queries` among them, on objects in memory."""

import json
from pathlib import Path

import pytest
from command_line import hardneg
from recipes.recipes import small_collection
from tiny import BY_FAMILY
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.formats.runs import read_run
from hardneg.records import NEGATIVES, DataError, RecipeError, UsageError
from hardneg.store import Store

MINER = {"name": "topk", "depth": 20}


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("verbs")
    small_collection(folder / "data")
    (folder / "model").symlink_to(tiny_model)
    return folder


@pytest.fixture(scope="module")
def at(place):
    return {"store": place / "store", "device": "cpu"}


@pytest.fixture(scope="module")
def in_memory(place):
    """The same collection as dicts."""

    def rows(name):
        lines = (place / "data" / name).read_text(encoding="utf-8").splitlines()
        return {row["_id"]: row["text"] for row in map(json.loads, lines)}

    def judged(split):
        lines = (place / "data" / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        return {query_id: {doc_id: int(grade)} for query_id, doc_id, grade in (line.split("\t") for line in lines)}

    qrels = {split: judged(split) for split in ("train", "dev", "test")}
    return {"corpus": rows("corpus.jsonl"), "queries": rows("queries.jsonl"), "qrels": qrels}


def finished(at):
    return {artifact.key for artifact in Store(at["store"]).artifacts()}


def test_the_command_and_the_function_share_one_artifact(place, at):
    given = ["mine", "--dataset", f"beir:{place / 'data'}", "--model", str(place / "model"), "--device", "cpu"]
    given += ["--option", "miner.depth=20", "--store", str(at["store"]), "--output", str(place / "mined.arrow")]
    done = CliRunner().invoke(app, [*given, "--form", "hardneg", "--count", "20"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    before = finished(at)
    mined = hn.mine(place / "data", place / "model", miner=MINER, **at)
    assert finished(at) == before
    assert mined.key in before
    assert mined.path.read_bytes() == (place / "mined.arrow").read_bytes()


def test_a_collection_in_memory_has_the_keys_of_its_folder(place, at, in_memory):
    of_folder = hn.mine(place / "data", place / "model", miner=MINER, **at)
    assert hn.mine(in_memory, place / "model", miner=MINER, **at).key == of_folder.key


def test_a_run_is_taken_as_an_object_a_file_and_a_dict(place, at):
    run = hn.search(f"beir:{place / 'data'}", place / "model", split="train", depth=30, **at)
    assert len(run) == 36
    first, ranked = next(iter(run))
    assert (first, len(ranked.doc_ids)) == ("q0", 30)
    assert run["q0"].doc_ids == ranked.doc_ids
    assert {query_id: list(each) for query_id, each in run.to_dict().items()} == {
        query_id: list(each.doc_ids) for query_id, each in read_run(run.path).items()
    }
    mined = [hn.mine(place / "data", run=given, **at) for given in (run, run.path, str(run.path), run.to_dict())]
    assert {each.key for each in mined} == {mined[0].key}
    assert mined[0]["q0"].negatives[:2] == [doc_id for doc_id in ranked.doc_ids if doc_id != "d0"][:2]
    assert mined[0].facts["queries in the run"] == 36


def test_negatives_as_tables(place, at):
    mined = hn.mine(place / "data", place / "model", miner=MINER, **at)
    rows = mined.to_dataset("n-tuple", negatives=2, scores=True)
    texts = {row["_id"]: row["text"] for row in map(json.loads, (place / "data/corpus.jsonl").open(encoding="utf-8"))}
    found = mined["q0"]
    assert rows.column_names == ["anchor", "positive", "negative_1", "negative_2", "scores"]
    expected = [texts[doc_id] for doc_id in ("d0", *found.negatives[:2])]
    assert [rows[0][name] for name in ("positive", "negative_1", "negative_2")] == expected
    assert rows[0]["scores"][1:] == pytest.approx(found.scores[:2].tolist())
    assert len(mined.to_dataset("triplet", negatives=3)) == 36 * 3
    assert mined.to_dataset("labeled-list", negatives=3)[0]["labels"] == [1, 0, 0, 0]
    assert mined.to_dict()["q0"] == {
        "positives": ["d0"],
        "negatives": list(found.negatives),
        "scores": found.scores.tolist(),
    }
    beyond = sum(len(row.negatives) - 3 for row in mined)
    left_out = {"negatives left out: beyond the first 3 per query": beyond}
    assert mined.write(place / "three.jsonl", "triplet", negatives=3) == {"rows": 36 * 3, **left_out}
    assert mined.path.name == NEGATIVES


def test_negatives_replace_neither_the_corpus_nor_the_store(place, at, tmp_path):
    mined = hn.mine(place / "data", place / "model", miner=MINER, **at)
    corpus, kept = tmp_path / "corpus.jsonl", mined.path.read_bytes()
    corpus.write_text("{}")
    with pytest.raises(UsageError, match=r"corpus.jsonl: already exists and was not written by `MinedNegatives.write`"):
        mined.write(corpus, "n-tuple", negatives=2)
    assert corpus.read_text() == "{}"
    with pytest.raises(UsageError, match=r"is in .* which is an input"):
        mined.write(mined.path, "hardneg", overwrite=True)
    assert mined.path.read_bytes() == kept
    assert mined.write(tmp_path / "own.jsonl") == mined.write(tmp_path / "own.jsonl")
    assert mined.write(corpus, "n-tuple", negatives=2, overwrite=True)["rows"] == 36


def test_a_live_model_is_kept_once_by_its_content(place, at, tiny_model):
    from sentence_transformers import SentenceTransformer

    models = [SentenceTransformer(str(tiny_model), device="cpu") for _ in range(2)]
    built = [hn.encode(place / "data", model, **at) for model in models]
    assert built[0].key == built[1].key
    assert built[0].name == "SentenceTransformer"
    before = finished(at)
    hn.search(place / "data", models[1], depth=5, **at)
    assert len(finished(at) - before) == 1


def test_training_gives_a_model_that_functions_take(place, at):
    trained = hn.train(place / "data", place / "model", options={"max_steps": 2, "batch_size": 8}, **at)
    assert (trained.path / "modules.json").is_file()
    run = hn.search(place / "data", trained, depth=5, **at)
    assert len(run) == 14


def test_mistakes_in_what_is_given(place, at):
    with pytest.raises(UsageError, match=r"either model or|exactly one of"):
        hn.mine(place / "data", **at)
    with pytest.raises(UsageError, match="unknown argument 'stroe'; did you mean 'store'"):
        hn.mine(place / "data", place / "model", stroe="x")
    with pytest.raises(RecipeError, match=r"depht: topk has no such option; did you mean 'depth'"):
        hn.mine(place / "data", place / "model", miner={"name": "topk", "depht": 3}, **at)
    with pytest.raises(UsageError, match="cannot use 7"):
        hn.mine(place / "data", 7, **at)
    with pytest.raises(DataError, match=r"run\['q0'\]\['d1'\]: must be a finite 32-bit number"):
        hn.mine(place / "data", run={"q0": {"d1": float("nan")}}, **at)
    with pytest.raises(DataError, match="run: an id has an unpaired surrogate"):
        hn.mine(place / "data", run={"q0": {"d\ud800": 1.0}}, **at)
    with pytest.raises(UsageError, match="miner: must be a name, or a dict with `name` and options, not 3"):
        hn.mine(place / "data", place / "model", miner=3, **at)
    with pytest.raises(UsageError, match="runs is empty"):
        hn.evaluate({}, {"q0": {"d1": 1}}, **at)


def test_an_index_over_vectors_and_vectors_of_queries(place, at):
    import numpy as np

    flat = hn.encode(place / "data", place / "model", **at)
    small = hn.index(backend="sq8", vectors=flat, **at)
    assert small.facts["passages"] == 60 and small.facts["bytes"] > 0
    assert hn.index(backend="sq8", vectors=flat, **at).key == small.key
    assert hn.index(backend="fp16", vectors=flat, **at).key != small.key
    np.save(place / "queries.npy", np.eye(2, 32, dtype=np.float32))
    (place / "ids.txt").write_text("one\ntwo\n")
    run = hn.search(index=flat, query_vectors=place / "queries.npy", query_ids=place / "ids.txt", depth=3, **at)
    assert [(query_id, len(ranked.doc_ids)) for query_id, ranked in run] == [("one", 3), ("two", 3)]
    assert "RankedRun('queries'" in repr(run)
    with pytest.raises(UsageError, match="sq8 is built from vectors; give only vectors"):
        hn.index(place / "data", "sq8", **at)
    with pytest.raises(UsageError, match="omit dataset, model"):
        hn.search(place / "data", index=flat, query_vectors=place / "queries.npy", **at)


LIVE = {"sparse": "SparseEncoder", "multi-vector": "MultiVectorEncoder"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [each for each in BY_FAMILY if each in LIVE])
def test_live_models_of_other_kinds(kind, place, at, tmp_path):
    import sentence_transformers

    live = getattr(sentence_transformers, LIVE[kind])(str(BY_FAMILY[kind](tmp_path / "model")), device="cpu")
    run = hn.search(place / "data", live, depth=5, **at)
    of_folder = hn.search(place / "data", tmp_path / "model", depth=5, **at)
    assert {query_id: list(each.doc_ids) for query_id, each in run} == {
        query_id: list(each.doc_ids) for query_id, each in of_folder
    }


WORDS = ["river", "harbor", "bridge", "tower", "garden", "market", "castle", "meadow", "valley", "forest", "island"]
WRITING = {"writers": ["heading", "inverse-cloze"], "per_passage": 2, "dev_share": 0.2, "test_share": 0.2}


@pytest.fixture
def documents(session: Path) -> str:
    """Eleven files with three sections each."""
    (session / "docs").mkdir()
    for file, word in enumerate(WORDS):
        sections = [
            f"## The {word} {other}\n\nHere the {other} is beside the {word} {file}. Who walks by the {word} rests.\n"
            for other in WORDS[file : file + 3] + ["well", "hill", "road"][: max(0, file - 8)]
        ]
        (session / "docs" / f"f{file}.md").write_text(f"# {word}\n\n" + "\n".join(sections))
    return "documents:docs"


def test_the_result_is_a_dataset_with_splits_and_groups(documents, session, tiny_model):
    settings = ["dataset.min_words=0"]
    written = hn.write_queries(documents, **WRITING, settings=settings)
    queries = [json.loads(line) for line in (written.path / "queries.jsonl").read_text().splitlines()]
    sizes = {split: counts["queries"] for split, counts in written.facts["splits"].items()}
    assert [*sizes] == ["train", "dev", "test"] and sum(sizes.values()) == len(queries) == 33
    assert {query["_id"].split(":")[0] for query in queries} == {"heading", "inverse-cloze"}
    groups = dict(line.split("\t") for line in (written.path / "query-groups.tsv").read_text().splitlines())
    assert groups[queries[0]["_id"]] == queries[0]["_id"].split(":")[1]
    run = hn.search(written, str(tiny_model), split="test", depth=3, device="cpu")
    assert len(run) == sizes["test"]
    hn.evaluate(run, written.path / "qrels" / "test.tsv")
    options = ["--writer", "heading", "--writer", "inverse-cloze", "--per-passage", "2", "--dev-share", "0.2"]
    options += ["--test-share", "0.2", "--set", *settings, "--output", "w"]
    done = hardneg("write-queries", "--dataset", documents, *options).stdout
    by_heading = written.facts["queries written by heading"]
    assert f"train: {sizes['train']} queries" in done and f"  queries written by heading: {by_heading}" in done
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "document-groups.tsv"):
        assert (session / "w" / name).read_bytes() == (written.path / name).read_bytes()
    assert not (session / "w" / "manifest.json").exists()


def test_the_round_trip_of_a_model_or_a_reranker(documents, tiny_model, tiny_reranker):
    options = {**WRITING, "settings": ["dataset.min_words=0"], "device": "cpu"}
    whole = hn.write_queries(documents, **options)
    found = hn.search(whole, str(tiny_model), split="train", depth=33, device="cpu")
    by_model = hn.write_queries(documents, **options, round_trip=str(tiny_model), first_k=12)
    by_pair = hn.write_queries(
        documents, **options, round_trip=str(tiny_model), first_k=12, reranker=f"cross-encoder:{tiny_reranker}"
    )
    reranked = hn.rerank(whole, found, f"cross-encoder:{tiny_reranker}", split="train", depth=33, device="cpu")
    for written, run in ((by_model, found), (by_pair, reranked)):
        qrels = _judged(whole.path / "qrels" / "train.tsv")
        kept = {query for query, ranked in run if qrels[query] & set(ranked.doc_ids[:12])}
        assert 0 < len(kept) < len(qrels) and _judged(written.path / "qrels" / "train.tsv").keys() == kept
        assert (written.path / "qrels" / "test.tsv").read_bytes() == (whole.path / "qrels" / "test.tsv").read_bytes()
        assert written.facts["queries kept"] == len(kept)
    assert by_model.path != by_pair.path
    with pytest.raises(UsageError, match="first_k needs round_trip"):
        hn.write_queries(documents, **options, first_k=12)


def _judged(path: Path) -> dict[str, set[str]]:
    judged: dict[str, set[str]] = {}
    for line in path.read_text().splitlines()[1:]:
        query_id, doc_id, _ = line.split("\t")
        judged.setdefault(query_id, set()).add(doc_id)
    return judged
