"""Negatives that other programs mined, as lists to mine from."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import stored_collection

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.runs import QueryLists
from hardneg.mining.choosing import LABEL, ListsOfFile, drawn_positives, permuted, planted
from hardneg.mining.ranks import TopK
from hardneg.recipes import check_recipe
from hardneg.records import DataError, Negatives, RankedList, RecipeError
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, Local, StageContext
from hardneg.stages.mine import Mine


@pytest.fixture
def collection(tmp_path: Path) -> StoredCollection:
    stored_collection(tmp_path)
    return StoredCollection.open(tmp_path / "stored")


def own_form(path: Path, *rows: tuple[str, list[str]]) -> Path:
    items = [Negatives(name, ["d0"], doc_ids, np.full(len(doc_ids), np.nan, np.float32)) for name, doc_ids in rows]
    write_negatives(path, items)
    return path


def texts_of(collection: StoredCollection, path: Path, query_id: str, positive: str, negatives: list[str]) -> Path:
    """A file of FlagEmbedding's form; its last negative is of no document."""
    queries = dict(collection.queries("train"))
    contents = {name: collection.corpus.contents(collection.corpus.rows([name]))[0] for name in (positive, *negatives)}
    row = {"query": queries[query_id], "pos": [contents[positive]], "neg": [contents[name] for name in negatives]}
    row["neg"].append("a text that no document has")
    path.write_text(json.dumps(row) + "\n")
    return path


def mined(folder: Path, **options: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    spec = Mine.model_validate({"stage": "mine", "miner": "topk", **options})
    inputs = {"dataset": ArtifactInput("dataset", "", folder / "stored")}
    (folder / "out").mkdir()
    facts = Local().make(StageContext("mined", spec, folder / "out", inputs, {"miner": TopK(depth=5)}, Silent()))
    mined = read_negatives(folder / "out" / "negatives.arrow")
    return dict(facts), {one.query_id: list(one.negatives) for one in mined}


def test_lists_come_in_the_order_of_the_split(collection: StoredCollection, tmp_path: Path) -> None:
    file = own_form(tmp_path / "n.arrow", ("q3", ["d7"]), ("q0", ["d5", "d4"]), ("elsewhere", ["d1"]))
    lists = ListsOfFile(file, "hardneg", collection, "train")
    listed = {name: list(hits[LABEL].doc_ids) for name, hits in lists.listed(["q0", "q1", "q3"], {})}
    assert listed == {"q0": ["d5", "d4"], "q1": [], "q3": ["d7"]}
    assert lists.counts["queries not in the split"] == 1 and lists.counts["queries not in the file"] == 34


def test_texts_are_found_in_the_corpus(collection: StoredCollection, tmp_path: Path) -> None:
    file = texts_of(collection, tmp_path / "n.jsonl", "q2", "d2", ["d9", "d4"])
    lists = ListsOfFile(file, "flagembedding", collection, "train")
    ((_, hits),) = lists.listed(["q2"], {})
    assert list(hits[LABEL].doc_ids) == ["d9", "d4"]
    assert sum(count for reason, count in lists.counts.items() if "not in the corpus" in reason) == 1


def test_a_miner_takes_them_and_labelled_positives_are_counted(collection: StoredCollection, tmp_path: Path) -> None:
    positive = next(iter(collection.qrels("train")["q1"]))
    file = own_form(tmp_path / "n.arrow", ("q1", ["d5", positive, "d4"]))
    facts, negatives = mined(tmp_path, file=str(file))
    assert negatives["q1"] == ["d5", "d4"] and facts["dropped as positive"] == 1
    assert facts["queries without negatives"] == 35 and facts["queries not in the file"] == 35


def test_a_document_or_a_split_that_is_not_there(collection: StoredCollection, tmp_path: Path) -> None:
    lists = ListsOfFile(own_form(tmp_path / "a.arrow", ("q0", ["gone"])), "hardneg", collection, "train")
    with pytest.raises(DataError, match=r"\S+: negative of query q0: 'gone' is not in the corpus"):
        list(lists.listed(["q0"], {}))
    with pytest.raises(DataError, match="no query of the file is in split train"):
        ListsOfFile(own_form(tmp_path / "b.arrow", ("t0", ["d1"])), "hardneg", collection, "train")


def test_a_file_of_another_form_or_beside_a_run(tmp_path: Path) -> None:
    stages = {
        "start-index": {"stage": "index", "backend": "bm25"},
        "start-train": {"stage": "search", "index": "start-index", "split": "train"},
        "theirs": {"stage": "mine", "miner": "topk", "file": "n.csv", "form": "dpr", "runs": {"bm25": "start-train"}},
        "fileless": {"stage": "mine", "miner": "topk", "form": "dpr", "runs": {"bm25": "start-train"}},
    }
    tree = {"dataset": f"beir:{tmp_path}", "model": {"name": "none"}, "stages": stages}
    with pytest.raises(RecipeError) as caught:
        check_recipe(tree, tmp_path / "r.yaml")
    assert "stages.theirs.runs: with `file`" in str(caught.value)
    assert "stages.fileless.form: needs `file`; set `file`" in str(caught.value)
    assert "stages.theirs.form: n.csv: the name must end in .json for form dpr" in str(caught.value)


def listed(count: int) -> list[QueryLists]:
    """Query i lists its positive p-i, h-i and n-i, with scores 3, 2, 1."""
    scores = np.array([3, 2, 1], np.float32)
    return [(f"q{i}", {"dense": RankedList([f"p{i}", f"h{i}", f"n{i}"], scores)}) for i in range(count)]


def test_each_query_has_the_list_of_another_without_its_positives() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(1500)}
    lists = list(permuted(iter(listed(1500)), known, seed=1))
    donors = [hits["dense"].doc_ids[0].removeprefix("h") for _, hits in lists]
    assert [query_id for query_id, _ in lists] == [f"q{i}" for i in range(1500)]
    assert sorted(map(int, donors)) == list(range(1500))
    assert not [1 for row, donor in enumerate(donors) if int(donor) == row]
    assert all(hits["dense"].doc_ids == [f"h{i}", f"n{i}"] for (_, hits), i in zip(lists, donors, strict=True))
    assert lists[0][1]["dense"].scores.tolist() == [2, 1]


def test_the_only_query_has_no_list() -> None:
    ((_, hits),) = permuted(iter(listed(1)), {}, seed=1)
    assert not hits["dense"].doc_ids


def test_a_share_of_the_lists_is_withheld_positives_alone() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(1000)}
    withheld = {f"q{i}": [f"h{i}", f"x{i}"] for i in range(800)}
    shares = {}
    for share in (0.0, 0.25, 0.5, 1.0):
        lists = {query_id: hits["dense"] for query_id, hits in planted(listed(1000), withheld, known, share, 7)}
        false = {name for name, ranked in lists.items() if ranked.doc_ids == [f"p{name[1:]}", *withheld.get(name, ())]}
        clean = {name for name, ranked in lists.items() if ranked.doc_ids == [f"p{name[1:]}", f"n{name[1:]}"]}
        assert false | clean == withheld.keys()
        assert all(lists[f"q{i}"].doc_ids == [f"p{i}", f"h{i}", f"n{i}"] for i in range(800, 1000))
        assert all(lists[name].scores.tolist() == [3, 2, 1] for name in false)  # x, which is not listed, has the last
        shares[share] = false
    assert len(shares[0.0]) == 0 and len(shares[1.0]) == 800
    assert 150 < len(shares[0.25]) < 250 and 350 < len(shares[0.5]) < 450 and shares[0.25] < shares[0.5]


def test_positives_of_others_are_drawn_evenly_and_not_the_query_s_own() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(100)} | {"q0": ["p0", "p1"], "elsewhere": ["x"]}
    query_ids = [f"q{i}" for i in range(100)]
    lists = {query_id: hits["positives"] for query_id, hits in drawn_positives(query_ids, known, 10, seed=3)}
    assert list(lists) == query_ids
    assert all(len(set(ranked.doc_ids)) == 10 for ranked in lists.values())
    assert all(not set(known[name]) & set(ranked.doc_ids) for name, ranked in lists.items())
    assert all(np.isnan(ranked.scores).all() for ranked in lists.values())
    counts = Counter(doc_id for ranked in lists.values() for doc_id in ranked.doc_ids)
    assert counts.keys() == {f"p{i}" for i in range(100)} and max(counts.values()) < 25  # 10 each, deviation 3


def test_all_positives_of_others_where_there_are_fewer() -> None:
    lists = dict(drawn_positives(["a", "b", "c"], {"a": ["1"], "b": ["2"], "c": ["3"]}, 10, seed=3))
    assert sorted(lists["a"]["positives"].doc_ids) == ["2", "3"]
