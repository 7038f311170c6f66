"""Analyses `denoising` and `planted` of stage `analyze`, with their sections of the report."""

import numpy as np
import pytest
from recipes.recipes import small_collection

from hardneg.datasets.beir import Beir
from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.miners.thresholds import Denoised
from hardneg.records.errors import ArtifactError
from hardneg.records.types import Candidates, RankedList
from hardneg.runtime.progress import Silent
from hardneg.stages.base import ArtifactInput
from tests.stages.analyzed import analyze, content, context, made

DENSE = {f"q{number}": ["d0", "d1", "d2", "d3", "d4", "d5"] for number in range(4)}
SCORES = {"d0": 0.9, "d1": 0.8, "d2": 0.7, "d3": 0.05, "d4": 0.02, "d5": 0.01}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Four training queries, d0 to d3 relevant to each of them, of which some are hidden."""
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
    assert section.title == "Behind: what was dropped, by rank"
    row = section.tables[1].rows[0]
    assert row[1] == "q0 old river" and row[5].startswith("rank 4 d3 ")


def test_a_miner_without_a_record_is_told(stored, tmp_path):
    with pytest.raises(ArtifactError, match="mine with a miner that reports what it drops"):
        content(stored, tmp_path, {"denoising": {"negatives": {"CE": "x"}}}, negatives__CE="dense")


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
        ({}, "train", ": this dataset withholds no judgements: give it `withheld`"),
        ({"judgements": 3, "hidden": {}}, "train", ": no positive is hidden of a query that keeps another: raise"),
        ({"judgements": 3, "hidden": {"train": 1}}, "unlabelled", ".split: no positives of split unlabelled are"),
        ({"judgements": 3, "hidden": {"train": 1}}, "train", ""),
        ({"judgements": 3}, "train", ""),
    ],
)
def test_hidden_positives_must_be_there_of_the_split_before_anything_trains(withheld, split, told):
    spec = analyze({"false-negative-recall": {"run": "r", "split": split}})
    found = list(spec.missing({"splits": {}, "withheld": withheld}))
    assert not found if not told else found[0].startswith(f"analysis.false-negative-recall{told}") and len(found) == 1


def test_a_split_without_known_positives_is_a_report_all_the_same(stored, tmp_path):
    for name in ("queries", "qrels"):
        (tmp_path / "there" / name).mkdir(parents=True)
    whole = WithheldCollection(Beir(str(stored / "data")).load(), Withheld(unlabelled=0.5))
    write_collection(whole, tmp_path / "there", Silent())
    asked = {"run": "x", "thresholds": {"denoised": [0.1]}, "split": "unlabelled"}
    given = {"false-negative-recall.run": ArtifactInput("r", "", tmp_path)}
    collection = StoredCollection.open(tmp_path / "there")
    ids = collection.queries("unlabelled").query_ids
    write_run(tmp_path / "run.trec.gz", [(query_id, RankedList(["d0"], np.ones(1, np.float32))) for query_id in ids])
    _, section = made(context(tmp_path, {"false-negative-recall": asked}, given, tmp_path / "there"))
    assert len(ids) and "0 hidden positives among 0 scored candidates: 0 queries of split" in section.explained
