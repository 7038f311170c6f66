"""Tests of the candidates that filters drop, and of the withheld positives among them."""

import numpy as np
import pytest
from hardneg_papers.analyses.filters import Denoising, examples, false_negative_recall, shares
from recipes.recipes import small_collection

from hardneg.datasets.beir import Beir
from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.thresholds import Denoised
from hardneg.records import ArtifactError, Candidates, Drops, Negatives, RankedList
from hardneg.runtime import Silent
from hardneg.stages import ModelSpec, RecipeView
from tests.run_lists import ranked
from tests.stages.analyzed import analyze, content


def scored_query(dense, scores, positives, copies=(), name="q"):
    listed = ranked({doc_id: float(-rank) for rank, doc_id in enumerate(dense)})
    return Candidates(name, positives, {"dense": listed, "CE": ranked(scores)}, [], frozenset(copies))


ONE = scored_query("pcahb", {"p": 0.9, "h": 0.8, "a": 0.3, "b": 0.05}, ["p"], ["c"], "q1")
TWO = scored_query("haxd", {"h": 0.02, "a": 0.6, "d": 0.01}, ["p"], name="q2")


def test_recall_and_precision_of_what_a_filter_removes():
    found = false_negative_recall([(ONE, {"h", "z"}), (TWO, {"h"})], ["CE"], {"denoised": (0.1, 0.5)}, depth=5)
    assert (found["queries"], found["with hidden positives"]) == (2, 2)
    by_ce = found["scores"]["CE"]
    assert (by_ce["candidates"], by_ce["hidden"], by_ce["unscored"]) == (6, 2, 1)
    strict, loose = by_ce["filters"]["denoised"]
    assert strict == {"threshold": 0.1, "removed": 3, "recall": 0.5, "precision": 1 / 3, "kept": 0.5}
    assert loose == {"threshold": 0.5, "removed": 2, "recall": 0.5, "precision": 0.5, "kept": 0.75}


def test_filters_that_compare_keep_nothing_where_no_positive_has_a_score():
    found = false_negative_recall(
        [(ONE, {"h"}), (TWO, {"h"})], ["CE"], {"pos-margin": (0.5,), "pos-percent": (0.9,)}, depth=5
    )
    by_ce = found["scores"]["CE"]
    assert by_ce["queries with no scored positive"] == 1
    (margin,), (share,) = by_ce["filters"]["pos-margin"], by_ce["filters"]["pos-percent"]
    assert (margin["removed"], margin["recall"], margin["kept"]) == (4, 1.0, 0.5)
    assert (share["removed"], share["recall"]) == (3, 0.5)


def test_the_first_documents_of_the_list_are_the_candidates_and_its_scores_may_decide():
    found = false_negative_recall([(ONE, {"h"})], ["dense", "CE"], {"max-score": (-1.5,)}, depth=4)
    own = found["scores"]["dense"]
    assert (own["candidates"], own["hidden"]) == (2, 1)
    assert own["filters"]["max-score"] == [
        {"threshold": -1.5, "removed": 0, "recall": 0.0, "precision": None, "kept": 1.0}
    ]
    assert found["scores"]["CE"]["filters"]["max-score"][0]["kept"] == 0.0


def test_a_perfect_scorer_finds_all_and_keeps_all():
    draws = np.random.default_rng(0)
    asked = []
    for number in range(50):
        hidden = {f"d{row}" for row in draws.choice(40, 3, replace=False)}
        scores = {f"d{row}": 0.95 if f"d{row}" in hidden else 0.01 for row in range(40)}
        asked.append((scored_query(list(scores), scores, [], name=f"q{number}"), hidden))
    (point,) = false_negative_recall(asked, ["CE"], {"denoised": (0.1,)}, depth=40)["scores"]["CE"]["filters"][
        "denoised"
    ]
    assert (point["recall"], point["precision"], point["kept"], point["removed"]) == (1.0, 1.0, 1.0, 150)


TABLES = Denoising.model_construct()


def query(name, candidates, dropped, negatives=(), chosen=()):
    """Return a mined query; dropped: tuples (rank, reason, score)."""
    ranks, reasons, scores = zip(*dropped, strict=True) if dropped else ((), (), ())
    names = [f"{name}-{rank}" for rank in ranks]
    rows = [np.array(values, kind) for values, kind in ((ranks, "i4"), (scores, "f4"), (chosen, "i4"))]
    drops = Drops(candidates, names, rows[0], reasons, rows[1], rows[2])
    return Negatives(name, [f"{name}-p"], list(negatives), np.zeros(len(negatives), np.float32), {}, drops)


MINED = [
    query("q1", 3, [(1, "positive", 0.9), (2, "score", 0.8)], ["n1"], [3]),
    query("q2", 3, [(1, "score", 0.7), (2, "score", 0.99), (3, "unscored", np.nan)], ["n2", "n3"], [9, 8]),
    query("q3", 1, []),
    query("q4", 2, [(1, "score", 0.999), (2, "duplicate", 0.2)]),
]


@pytest.fixture
def files(tmp_path):
    write_negatives(tmp_path / "negatives.arrow", recorded(MINED, tmp_path / "dropped.arrow"))
    return tmp_path / "dropped.arrow", tmp_path / "negatives.arrow"


def test_the_share_at_a_rank_is_of_what_is_neither_a_positive_nor_a_copy(files):
    found = shares(files[0])
    assert found["queries"] == 4 and found["candidates"] == [4, 3, 2]
    scored = {"positive": [1, 0, 0], "score": [2, 2, 0]}
    assert found["dropped"] == {**scored, "unscored": [0, 0, 1], "duplicate": [0, 1, 0]}
    assert found["filtered"] == [2 / 3, 1, 0]


def test_counts_are_those_of_all_batches(tmp_path):
    many = [query(f"q{number}", 2, [(1 + number % 2, "score", 0.5)]) for number in range(2501)]
    write_negatives(tmp_path / "n.arrow", recorded(many, tmp_path / "d.arrow"))
    found = shares(tmp_path / "d.arrow")
    assert found["candidates"] == [2501, 2501] and found["dropped"]["score"] == [1251, 1250]
    assert [case["query_id"] for case in examples(tmp_path / "d.arrow", tmp_path / "n.arrow", 3)] == []


def test_examples_are_of_queries_that_kept_something_best_first(files):
    second, first = examples(*files, 5)
    assert second["dropped"] == {"doc_id": "q2-2", "rank": 2, "score": pytest.approx(0.99)}
    assert second["kept"] == {"doc_id": "n2", "rank": 9} and second["positive"] == {"doc_id": "q2-p"}
    assert (first["query_id"], first["dropped"]["doc_id"], first["kept"]) == ("q1", "q1-2", {"doc_id": "n1", "rank": 3})
    assert examples(*files, 1) == [second]


def test_files_of_two_minings_are_refused(files, tmp_path):
    write_negatives(tmp_path / "other.arrow", MINED[:2])
    with pytest.raises(ArtifactError, match=r"not the queries of .*give both files of one mining"):
        examples(files[0], tmp_path / "other.arrow", 5)


def test_ranks_are_told_in_bands(files):
    table = TABLES.table({"filters": {"CE": shares(files[0])}})
    assert table.columns[4:] == ("duplicate", "positive", "score", "unscored")
    assert table.rows == [
        ["CE", "1", "66.7%", "4", "0", "1", "2", "0"],
        ["CE", "2", "100.0%", "3", "1", "0", "2", "0"],
        ["CE", "3", "0.0%", "2", "0", "0", "0", "1"],
        ["CE", "1–3", "57.1%", "9", "1", "1", "4", "1"],
    ]
    long = {"candidates": [1] * 12, "dropped": {}}
    assert [row[1] for row in TABLES.table({"filters": {"": long}}).rows] == ["1", "2", "3–5", "6–10", "11–12", "1–12"]
    assert TABLES.table({"filters": {"": {"candidates": [], "dropped": {}}}}).rows == []


DENSE = {f"q{number}": ["d0", "d1", "d2", "d3", "d4", "d5"] for number in range(4)}
SCORES = {"d0": 0.9, "d1": 0.8, "d2": 0.7, "d3": 0.05, "d4": 0.02, "d5": 0.01}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A collection of four training queries; d0 to d3 are relevant to each, and some of these judgements are hidden."""
    folder = tmp_path_factory.mktemp("stored")
    small_collection(folder / "data")
    lines = "".join(f"q{query}\td{document}\t1\n" for query in range(4) for document in range(4))
    (folder / "data" / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    collection = WithheldCollection(Beir(str(folder / "data")).load(), Withheld(positives=0.5))
    write_collection(collection, folder / "stored", Silent())
    for name, scores in (("dense", range(6, 0, -1)), ("ce", SCORES.values())):
        (folder / name).mkdir()
        values = np.array(list(scores), np.float32)
        entries = [(query_id, RankedList(ids, values)) for query_id, ids in DENSE.items()]
        write_run(folder / name / "run.trec.gz", entries)
    (folder / "mined").mkdir()
    hits = {"dense": RankedList(list(SCORES), np.arange(6, 0, -1, dtype=np.float32))}
    hits["scores"] = RankedList(list(SCORES), np.array(list(SCORES.values()), np.float32))
    mined = Denoised(count=1).mine([Candidates(query_id, ["d0"], hits, []) for query_id in DENSE], seed=0)
    write_negatives(folder / "mined" / "negatives.arrow", recorded(mined, folder / "mined" / "dropped.arrow"))
    return folder


def test_what_was_dropped_is_shown_by_rank_and_by_examples_with_texts(stored, tmp_path):
    spec = {"denoising": {"negatives": {"CE": "x"}, "examples": 2}}
    found, section = content(stored, tmp_path, spec, negatives__CE="mined")
    assert found["filters"]["CE"]["filtered"] == [None, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert found["filters"]["CE"]["dropped"] == {"positive": [4, 0, 0, 0, 0, 0], "score": [0, 4, 4, 0, 0, 0]}
    assert [case["query_id"] for case in found["examples"]] == ["q0", "q1"]
    case = found["examples"][0]
    assert case["text"] == "old river" and "old river" in case["positive"]["text"]
    assert (case["dropped"]["doc_id"], case["dropped"]["rank"], case["kept"]["rank"]) == ("d1", 2, 4)
    assert "blue river" in case["dropped"]["text"] and case["kept"]["doc_id"] == "d3"
    assert section.title == "Behind: dropped candidates by rank"
    row = section.tables[1].rows[0]
    assert row[1] == "q0 old river" and row[5].startswith("rank 4 d3 ")


def test_hidden_positives_are_those_that_the_dataset_withholds(stored, tmp_path):
    spec = {"false-negative-recall": {"run": "dense", "scores": {"CE": "ce"}, "thresholds": {"denoised": [0.1, 0.75]}}}
    found, section = content(stored, tmp_path, spec, run="dense", scores__CE="ce")
    hidden = StoredCollection.open(stored / "stored").withheld()
    count = sum(map(len, hidden.values()))
    by_ce = found["scores"]["CE"]
    assert 0 < by_ce["hidden"] == count <= 12 and by_ce["candidates"] == 4 * 2 + count
    assert found["queries"] == 4 and found["split"] == "train"
    found_hidden = sum(doc_id != "d3" for judged in hidden.values() for doc_id in judged)
    strict = by_ce["filters"]["denoised"][0]
    assert (strict["recall"], strict["precision"], strict["kept"]) == (found_hidden / count, 1.0, 1.0)
    assert section.title == "Behind: hidden positives"
    assert section.tables[0].rows[0][:2] == ["denoised by CE", "0.1"]
    assert f"{count} hidden positives among" in section.explained


@pytest.mark.parametrize(
    ("withheld", "split", "told"),
    [
        ({}, "train", ": this dataset withholds no judgements; add `withheld`"),
        ({"judgements": 3, "hidden": {}}, "train", ".split: no positives of split train are hidden; avail"),
        ({"judgements": 3, "hidden": {"train": 1}}, "unlabelled", ".split: no positives of split unlabelled are"),
        ({"judgements": 3, "hidden": {"train": 1}}, "train", ""),
        ({"judgements": 3}, "train", ""),
    ],
)
def test_hidden_positives_must_be_there_of_the_split_before_anything_trains(withheld, split, told):
    view = RecipeView("behind", {}, {}, ModelSpec(""), collection={"splits": {}, "withheld": withheld})
    found = list(analyze({"false-negative-recall": {"run": "r", "split": split}}).problems(view))
    assert not found if not told else found[0].startswith(f"analysis.false-negative-recall{told}") and len(found) == 1
