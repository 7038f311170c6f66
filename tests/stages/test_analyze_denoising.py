"""Analyses `denoising` and `planted` of stage `analyze`, with their sections of the report."""

import json

import numpy as np
import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.data.collection import StoredCollection, write_collection
from hardneg.data.negatives import write_negatives
from hardneg.data.rejected import recorded
from hardneg.data.runs import write_run
from hardneg.datasets.beir import Beir
from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.errors import ArtifactError, RecipeError
from hardneg.miners.denoised import Denoised
from hardneg.progress import Silent
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.stages import analyze
from hardneg.stages.analysis_sections import sections
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.types import Candidates, RankedList

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
        write_run(
            folder / name / "run.trec.gz", [(query_id, RankedList(ids, values)) for query_id, ids in DENSE.items()]
        )
    (folder / "mined").mkdir()
    hits = {"dense": RankedList(list(SCORES), np.arange(6, 0, -1, dtype=np.float32))}
    hits["scores"] = RankedList(list(SCORES), np.array(list(SCORES.values()), np.float32))
    mined = Denoised(count=1).mine([Candidates(query_id, ["d0"], hits, []) for query_id in DENSE], seed=0)
    write_negatives(folder / "mined" / "negatives.arrow", recorded(mined, folder / "mined" / "dropped.arrow"))
    return folder


def made(stored, folder, spec, **inputs):
    """What the only analysis of a spec says, and its sections of the report."""
    parsed = AnalyzeSpec.model_validate({"stage": "analyze", **spec})
    given = {path.replace("__", "."): ArtifactInput(name, "", stored / name) for path, name in inputs.items()}
    asked = StageContext(
        "behind", parsed, folder, {"dataset": ArtifactInput("d", "", stored / "stored"), **given}, {}, Silent()
    )
    (name,) = analyze.run(asked)["analyses"]
    return json.loads((folder / f"{name}.json").read_text()), sections("Behind", folder, [name])


def test_what_was_dropped_is_shown_by_rank_and_by_examples_with_texts(stored, tmp_path):
    spec = {"denoising": {"negatives": {"CE": "x"}, "examples": 2}}
    found, (by_rank, examples) = made(stored, tmp_path, spec, denoising__negatives__CE="mined")
    assert found["filters"]["CE"]["filtered"] == [None, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert found["filters"]["CE"]["dropped"] == {"positive": [4, 0, 0, 0, 0, 0], "score": [0, 4, 4, 0, 0, 0]}
    assert [case["query_id"] for case in found["examples"]] == ["q0", "q1"]
    case = found["examples"][0]
    assert case["text"] == "old river" and "old river" in case["positive"]["text"]
    assert (case["dropped"]["doc_id"], case["dropped"]["rank"], case["kept"]["rank"]) == ("d1", 2, 4)
    assert "blue river" in case["dropped"]["text"] and case["kept"]["doc_id"] == "d3"
    assert by_rank.title == "Behind: what was dropped, by rank" and by_rank.svg.count("<svg") == 1
    assert examples.title == "Behind: examples of what was dropped" and not examples.svg
    assert examples.tables[0].rows[0][1] == "q0 old river" and examples.tables[0].rows[0][5].startswith("rank 4 d3 ")


def test_no_examples_are_no_section(stored, tmp_path):
    spec = {"denoising": {"negatives": {"CE": "x"}, "examples": 0}}
    _, (only,) = made(stored, tmp_path, spec, denoising__negatives__CE="mined")
    assert only.tables[0].rows[0][:4] == ["CE", "1", "–", "4"]


def test_a_miner_without_a_record_is_told(stored, tmp_path):
    with pytest.raises(ArtifactError, match="mine with a miner that tells what it drops"):
        made(stored, tmp_path, {"denoising": {"negatives": {"CE": "x"}}}, denoising__negatives__CE="dense")


def test_hidden_positives_are_those_that_the_dataset_withholds(stored, tmp_path):
    spec = {"planted": {"run": "dense", "scores": {"CE": "ce"}, "thresholds": {"denoised": [0.1, 0.75]}}}
    found, (section,) = made(stored, tmp_path, spec, planted__run="dense", planted__scores__CE="ce")
    hidden = StoredCollection.open(stored / "stored").withheld()
    count = sum(map(len, hidden.values()))
    by_ce = found["scores"]["CE"]
    assert 0 < by_ce["hidden"] == count <= 12 and by_ce["candidates"] == 4 * 2 + count
    assert found["queries"] == 4 and found["split"] == "train"
    found_hidden = sum(doc_id != "d3" for judged in hidden.values() for doc_id in judged)
    strict = by_ce["filters"]["denoised"][0]
    assert (strict["recall"], strict["precision"], strict["kept"]) == (found_hidden / count, 1.0, 1.0)
    assert section.title == "Behind: hidden positives" and section.svg.count("<svg") == 1
    rows = section.tables[0].rows
    assert rows[0][:2] == ["denoised by CE", "0.1"] and f"{count} hidden positives among" in section.explained


def test_the_runs_own_scores_decide_where_no_others_are_named(stored, tmp_path):
    spec = {"planted": {"run": "first", "thresholds": {"pos-margin": [0]}, "depth": 3}}
    found, (section,) = made(stored, tmp_path, spec, planted__run="dense")
    assert list(found["scores"]) == ["first"] and found["depth"] == 3
    assert section.tables[0].rows[0][0] == "pos-margin by first"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"denoising": {"negatives": {"a": "start-test"}}}, "makes run, but negatives is needed"),
        ({"denoising": {"negatives": {}}}, "must have at least 1"),
        ({"planted": {"run": "start-train", "thresholds": {"denoise": [0.1]}}}, "no filter denoise; did you mean"),
        ({"planted": {"run": "start-train", "thresholds": {"denoised": []}}}, "must have at least 1"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, spec, told):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["behind"] = {"stage": "analyze", **spec}
    with pytest.raises(RecipeError, match=told):
        load_recipe(write_recipe(tmp_path / "small.yaml", tree))


def test_stages_are_inputs_by_their_path_and_count_by_their_keys(tmp_path, tiny_model):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    parts = {
        "denoising": {"negatives": {"topk": "static"}},
        "planted": {"run": "start-train", "scores": {"same": "start-train"}, "thresholds": {"denoised": [0.5]}},
    }
    tree["stages"]["behind"] = {"stage": "analyze", **parts}
    plan = make_plan(load_recipe(write_recipe(tmp_path / "small.yaml", tree)))
    inputs = plan.steps["behind"].inputs
    wanted = {"denoising.negatives.topk": "static", "planted.run": "start-train", "planted.scores.same": "start-train"}
    assert {path: inputs[path] for path in wanted} == wanted
    identity = AnalyzeSpec.model_validate({"stage": "analyze", **parts}).identity()
    assert identity["denoising"] == {"examples": 5, "negatives": ["topk"]}
    assert identity["planted"] == {
        "thresholds": {"denoised": [0.5]}, "depth": 50, "split": "train", "scores": ["same"],
    }  # fmt: skip
    plain = AnalyzeSpec.model_validate({"stage": "analyze", "runs": {"r": "start-test"}})
    assert not {"denoising", "planted"} & plain.identity().keys()
    assert not list(plain.missing({}))


@pytest.mark.parametrize(
    ("withheld", "split", "told"),
    [
        ({}, "train", "planted: this dataset withholds no judgements: give it `withheld`"),
        (
            {"judgements": 3, "hidden": {}},
            "train",
            "planted: no positive is hidden of a query that keeps another: raise",
        ),
        (
            {"judgements": 3, "hidden": {"train": 1}},
            "unlabelled",
            "planted.split: no positives of split unlabelled are",
        ),
        ({"judgements": 3, "hidden": {"train": 1}}, "train", ""),
        ({"judgements": 3}, "train", ""),
    ],
)
def test_hidden_positives_must_be_there_of_the_split_before_anything_trains(withheld, split, told):
    spec = AnalyzeSpec.model_validate({"stage": "analyze", "planted": {"run": "r", "split": split}})
    found = list(spec.missing({"splits": {}, "withheld": withheld}))
    assert len(found) == bool(told) and "".join(found).startswith(told)


def test_a_split_without_known_positives_is_a_report_all_the_same(stored, tmp_path):
    for name in ("queries", "qrels"):
        (tmp_path / "there" / name).mkdir(parents=True)
    whole = WithheldCollection(Beir(str(stored / "data")).load(), Withheld(unlabelled=0.5))
    write_collection(whole, tmp_path / "there", Silent())
    spec = {"stage": "analyze", "planted": {"run": "x", "thresholds": {"denoised": [0.1]}, "split": "unlabelled"}}
    given = {"dataset": ArtifactInput("d", "", tmp_path / "there"), "planted.run": ArtifactInput("r", "", tmp_path)}
    collection = StoredCollection.open(tmp_path / "there")
    ids = collection.queries("unlabelled").query_ids
    write_run(tmp_path / "run.trec.gz", [(query_id, RankedList(["d0"], np.ones(1, np.float32))) for query_id in ids])
    analyze.run(StageContext("behind", AnalyzeSpec.model_validate(spec), tmp_path, given, {}, Silent()))
    (section,) = sections("Behind", tmp_path, ["planted"])
    assert len(ids) and "0 hidden positives among 0 scored candidates: 0 queries of split" in section.explained
