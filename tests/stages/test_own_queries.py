"""Queries of a file in place of a split's, through search, rerank, label and training."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part
from tiny import tiny_reranker

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run
from hardneg.formats.source_files import OWN, SAME_TEXT, read_query_file
from hardneg.recipes import Options, Watcher, execute, make_plan
from hardneg.records import DataError, HardnegError, Query
from hardneg.store import Artifact, Store
from tests.run_lists import doc_lists

STEPS = {"max_steps": 2, "batch_size": 8}
OUTSIDE = [("o1", "heavy violin"), ("o2", "the fast engine"), ("o3", "quiet garden"), ("o4", "blue copper bridge")]


def tsv(path: Path, queries: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in queries))
    return path


def tree_of(folder: Path, model: Path, file: Path) -> dict[str, Any]:
    plugin = {"name": "cross-encoder", "source": str(tiny_reranker(folder / "reranker")), "length": 32}
    label = {"stage": "label", "run": "found", "scores": "found", "above": 0.5, "below": 0.45, "depth": 20}
    stages = {
        "found": {"stage": "search", "index": "start-index", "queries": str(file), "depth": 30},
        "scored": {"stage": "rerank", "plugin": plugin, "run": "found", "depth": 4},
        "labels": label,
        "scored-labels": {**label, "scores": "scored", "above": 0.0, "below": 0.0},
        "both": {"stage": "train", "loss": "infonce", "negatives": "static", "augmented": "labels", "options": STEPS},
    }
    return small_part(small_collection(folder / "data"), model, "start-index", "start-train", "static", **stages)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> dict[str, Artifact]:
    folder = tmp_path_factory.mktemp("outside")
    tree = tree_of(folder, tiny_model, tsv(folder / "outside.tsv", OUTSIDE))
    return artifacts_of(plan_in(folder, tree), folder / "store")


def test_a_file_is_searched_as_a_split_would_be(made: dict[str, Artifact], tmp_path: Path, tiny_model: Path) -> None:
    """The same queries as a split of another collection with the same corpus: the same bytes."""
    data = small_collection(tmp_path / "data")
    with (data / "queries.jsonl").open("a") as file:
        file.writelines(json.dumps({"_id": query_id, "text": text}) + "\n" for query_id, text in OUTSIDE)
    (data / "qrels" / "outside.tsv").write_text("".join(f"{query_id}\td0\t1\n" for query_id, _ in OUTSIDE))
    searched = {"stage": "search", "index": "start-index", "split": "outside", "depth": 30}
    tree = small_part(data, tiny_model, "start-index", found=searched)
    other = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    assert made["found"].facts["queries"] == 4
    name = "run.trec.gz"
    assert (made["found"].path / name).read_bytes() == (other["found"].path / name).read_bytes()


def test_its_queries_are_reranked_labelled_and_learnt_from(made: dict[str, Artifact]) -> None:
    ids = [query_id for query_id, _ in OUTSIDE]
    scored = read_run(made["scored"].path / "run.trec.gz")
    assert list(scored) == ids and {len(found) for found in doc_lists(scored)} == {4}
    assert doc_lists(scored) != [found[:4] for found in doc_lists(read_run(made["found"].path / "run.trec.gz"))]
    labels = read_negatives(made["labels"].path / "negatives.arrow")
    assert labels.query_ids and set(labels.query_ids) <= set(ids)
    assert made["scored-labels"].facts["queries without a pseudo-negative"] == 4
    card = (made["both"].path / "model" / "README.md").read_text()
    assert f"{len(labels)} more queries from labels" in card
    assert StoredCollection.open(made["dataset"].path).splits == ("train", "dev", "test")
    assert not [fact for fact in made["both"].facts if fact.startswith("left out")]


def test_they_count_by_content(tmp_path: Path, tiny_model: Path) -> None:
    one = tsv(tmp_path / "one.tsv", OUTSIDE)
    tree = tree_of(tmp_path, tiny_model, one)
    keys = plan_in(tmp_path, tree).keys
    tree["stages"]["found"]["queries"] = str(tsv(tmp_path / "same.tsv", OUTSIDE))
    assert plan_in(tmp_path, tree).keys == keys
    tree["stages"]["found"]["queries"] = str(tsv(tmp_path / "fewer.tsv", OUTSIDE[:3]))
    changed = plan_in(tmp_path, tree).keys
    own = {"found", "scored", "labels", "scored-labels", "both"}
    assert {name for name in keys if keys[name] != changed[name]} == own


def test_a_file_that_is_not_there_is_told_by_the_plan(tmp_path: Path, tiny_model: Path) -> None:
    recipe = recipe_in(tmp_path, tree_of(tmp_path, tiny_model, Path("nowhere.tsv")))
    problems: list[HardnegError] = []
    make_plan(recipe, problems)
    (problem,) = map(str, problems)
    assert problem.startswith("stages.found.queries: no file nowhere.tsv: set stages.found.queries=FILE, queries")


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text("a\tone\nb\na\tagain\nq1\tother words\nc\t \nd\tfine\n")
    with pytest.raises(DataError) as caught:
        list(read_query_file(file, {"q1": "known words"}, Counter()))
    assert str(caught.value).splitlines() == [
        f"{file}:2: 1 column; expected an id, a tab and a text",
        f"{file}:3: query 'a' repeats the id of line 1; make ids unique",
        f"{file}:4: query 'q1' is one of the dataset's, with another text; give it another id",
        f"{file}:5: query 'c' has no text",
    ]


def test_the_datasets_own_queries_are_left_out_and_equal_texts_counted(tmp_path: Path) -> None:
    file, facts = tmp_path / "queries.jsonl", Counter[str]()
    rows = [{"_id": "q1", "text": "known words"}, {"id": "n1", "text": "known words"}, {"qid": 7, "query": "new ones"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = list(read_query_file(file, {"q1": "known words"}, facts))
    assert found == [Query("n1", "known words"), Query("7", "new ones")]
    assert facts == {OWN: 1, SAME_TEXT: 1}


def test_a_file_of_the_datasets_own_queries_alone_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    tree = tree_of(tmp_path, tiny_model, tsv(tmp_path / "own.tsv", [("q50", "fast bridge")]))
    queries = [json.loads(line) for line in (tmp_path / "data" / "queries.jsonl").read_text().splitlines()]
    tsv(tmp_path / "own.tsv", [(row["_id"], row["text"]) for row in queries])
    tree["stages"] = {name: tree["stages"][name] for name in ("start-index", "found")}
    with pytest.raises(DataError, match="no query in it that the dataset does not have"):
        execute(plan_in(tmp_path, tree), Store(tmp_path / "store"), Options(device="cpu"), Watcher())
