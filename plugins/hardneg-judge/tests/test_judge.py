"""The verb `judge`: which pairs are judged, what happens to relevant negatives, and what is reported."""

import gzip
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import yaml
from chat_server import Served
from hardneg_judge.judge import JUDGEMENTS, Judge, Judged

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import drop_batches, drops_at, read_negatives
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.recipes.load import with_references
from hardneg.records import DROPPED, NEGATIVES, DataError, Negatives, RecipeError
from hardneg.stages import ArtifactInput
from hardneg.stages.training import examples_of
from hardneg.store import Artifact, Store
from hardneg.testing import StageTests
from hardneg.training.examples import Examples

CHAT = {"name": "chat", "model": "m"}
TEXTS = {
    "d1": "the river bends", "d2": "a stream, not a sea", "d3": "about a river", "d4": "harbor lights",
    "d5": "a quiet harbor", "d6": "nothing at all", "d7": "ships",
}  # fmt: skip
QUERIES = {"q1": "which river", "q2": "which harbor", "q3": "which meadow"}
RELEVANT = {"q1": "d1", "q2": "d4", "q3": "d7"}


class TestJudge(StageTests):
    stage = Judge
    flag, decide = {"reranker": "some-reranker"}, {"plugin": CHAT, "relevant_from": 1}
    mapping = MappingProxyType({"stage": "judge", "negatives": "some-negatives", "flag": flag, "decide": decide})


def tree_of(folder: Path, served: Served, **judge: Any) -> dict[str, Any]:
    """Write a dataset to a folder, and return a recipe tree whose stage `judged` judges random negatives of it."""
    data = folder / "data"
    (data / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("corpus", TEXTS), ("queries", QUERIES)):
        rows = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in texts.items()]
        (data / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split in ("train", "test"):
        lines = "".join(f"{query_id}\t{doc_id}\t1\n" for query_id, doc_id in RELEVANT.items())
        (data / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    decide = {"plugin": {**CHAT, "url": served.url}}
    mined = {"stage": "mine", "miner": {"name": "random", "count": 3}, "split": "train"}
    stages = {"mined": mined, "judged": {"stage": "judge", "negatives": "mined", "decide": decide, **judge}}
    return {"dataset": f"beir:{data}", "model": {"name": "nowhere", "similarity": "dot"}, "stages": stages}


def written(folder: Path, tree: dict[str, Any]) -> Path:
    path = folder / "r.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def made(folder: Path, served: Served, **judge: Any) -> dict[str, Artifact]:
    plan = make_plan(load_recipe(written(folder, tree_of(folder, served, **judge))))
    return dict(execute(plan, Store(folder / "store"), Options(device="cpu"), Watcher()).artifacts)


def rows(artifact: Artifact) -> dict[str, Negatives]:
    return {item.query_id: item for item in read_negatives(artifact.path / NEGATIVES)}


def truth(query_id: str, doc_id: str) -> bool:
    """Return the server's verdict: whether the document contains the query's second word."""
    return QUERIES[query_id].split()[1] in TEXTS[doc_id]


def test_relevant_negatives_are_dropped(tmp_path, served):
    found = made(tmp_path, served)
    before, after = rows(found["mined"]), rows(found["judged"])
    pairs = [(query_id, doc_id) for query_id, item in before.items() for doc_id in item.negatives]
    for query_id, item in before.items():
        kept = [place for place, doc_id in enumerate(item.negatives) if not truth(query_id, doc_id)]
        assert after[query_id].negatives == [item.negatives[place] for place in kept]
        np.testing.assert_array_equal(after[query_id].scores, item.scores[kept])
        assert after[query_id].positives == [RELEVANT[query_id]]
    facts, relevant = found["judged"].facts, sum(truth(*pair) for pair in pairs)
    assert relevant and facts["pairs"] == len(pairs) == len(served.requests) == facts["decide: requests"]
    assert facts["relevant"] == relevant and facts["negatives"] == len(pairs) - relevant and facts["queries"] == 3
    lines = gzip.decompress((found["judged"].path / JUDGEMENTS).read_bytes()).decode().splitlines()
    assert lines[0].split("\t") == ["query_id", "doc_id", "flag", "decide", "relevant"]
    assert lines[1:] == ["\t".join([*pair, "", *[str(int(truth(*pair)))] * 2]) for pair in pairs]
    (batch,) = drop_batches(found["judged"].path / DROPPED)
    drops = dict(drops_at(batch, row) for row in range(len(batch)))
    assert {(name, each) for name, item in drops.items() for each in item.doc_ids} == {p for p in pairs if truth(*p)}


JUDGED = Judged(
    Negatives("q", ["p"], ["a", "b", "c"], np.array([3, 2, 1], np.float32)),
    np.array([0.2, 0.7, 0.9], np.float32),
    np.array([np.nan, 0, 1], np.float32),
    np.array([False, False, True]),
    np.zeros(3, bool),
)


def test_what_becomes_of_a_relevant_negative():
    for outcome, positives in (("drop-negative", ["p"]), ("positive", ["p", "c"])):
        left = JUDGED.left(outcome)  # type: ignore[arg-type]
        assert left is not None and left.negatives == ["a", "b"] and left.positives == positives
        assert left.scores.tolist() == [3, 2] and left.dropped == {"relevant": 1}
        assert left.drops is not None and left.drops.doc_ids == ["c"] and left.drops.candidates == 3
        assert left.drops.ranks.tolist() == [3] and left.drops.chosen.tolist() == [1, 2]
        assert left.drops.scores.tolist() == [1]
    assert JUDGED.left("drop-query") is None
    none = Judged(JUDGED.mined, JUDGED.flag, JUDGED.decide, np.zeros(3, bool), np.zeros(3, bool))
    whole = none.left("drop-query")
    assert whole is not None and whole.negatives == ["a", "b", "c"] and whole.dropped == {}


@pytest.mark.parametrize("outcome", ["drop-negative", "positive", "drop-query"])
def test_a_negative_that_the_judge_did_not_tell_goes_and_is_no_positive(tmp_path, served, outcome):
    served.says = lambda message: "who knows" if TEXTS["d6"] in message else "no"
    found = made(tmp_path, served, outcome=outcome)
    after, unread = rows(found["judged"]), sum("d6" in item.negatives for item in rows(found["mined"]).values())
    for name, item in rows(found["mined"]).items():
        assert after[name].negatives == [doc_id for doc_id in item.negatives if doc_id != "d6"]
        assert after[name].positives == item.positives
    facts = found["judged"].facts
    assert unread and facts["dropped as unreadable"] == facts["decide: unreadable"] == unread and not facts["relevant"]
    (batch,) = drop_batches(found["judged"].path / DROPPED)
    drops = dict(drops_at(batch, row) for row in range(len(batch)))
    assert {(each, why) for item in drops.values() for each, why in zip(item.doc_ids, item.reasons, strict=True)} == {
        ("d6", "unreadable")
    }


def test_queries_go_and_positives_come(tmp_path, served):
    dropped = made(tmp_path, served, outcome="drop-query")
    before = rows(dropped["mined"])
    hit = {name for name, item in before.items() if any(truth(name, doc_id) for doc_id in item.negatives)}
    assert rows(dropped["judged"]).keys() == before.keys() - hit and hit
    assert dropped["judged"].facts["queries dropped"] == len(hit)
    asked = len(served.requests)
    found = made(tmp_path, served, outcome="positive")["judged"]
    for name, item in rows(found).items():
        new = [doc_id for doc_id in before[name].negatives if truth(name, doc_id)]
        assert item.positives == [RELEVANT[name], *new]
    assert found.facts["made positives"] == found.facts["relevant"] > 0
    assert len(served.requests) == asked and found.facts["decide: cached answers"] == asked


def test_the_second_judge_is_asked_of_what_is_flagged(tmp_path, served):
    def answer(message: str) -> str:
        return "yes" if "stream" in message or "river bends" in message or "about" in message else "no"

    served.says = answer
    flag = {"plugin": {**CHAT, "model": "small", "url": served.url}}
    found = made(tmp_path, served, flag=flag)
    facts = found["judged"].facts
    by_model = [request["model"] for request in served.requests]
    assert by_model.count("small") == facts["pairs"] and by_model.count("m") == facts["flagged"] < facts["pairs"]
    assert facts["flag: requests"] == facts["pairs"] and facts["decide: requests"] == facts["flagged"]
    served.says = lambda message: "1"
    again = made(tmp_path, served, flag={"plugin": {**flag["plugin"], "scale": "grades"}, "relevant_from": 2})["judged"]
    assert again.facts["flagged"] == again.facts["relevant"] == 0 and "decide: requests" not in again.facts


def test_what_was_made_a_positive_is_learnt_from_as_such(tmp_path, served):
    """New positives are added to the known one; a query without new positives keeps its own."""
    found = made(tmp_path, served, outcome="positive")
    plan = make_plan(load_recipe(tmp_path / "r.yaml"))
    traits = frozenset(plan.steps["judged"].spec.traits(plan.recipe.view("judged")))
    source = ArtifactInput("judged", "", found["judged"].path, plan.steps["judged"].spec, traits=traits)
    data = examples_of(StoredCollection.open(found["dataset"].path), source)
    told = {name: item.positives for name, item in rows(found["judged"]).items()}
    assert {name: list(data.positives[name]) for name in QUERIES} == told and len(told["q1"]) > 1
    drawn = {int(row) for start in range(0, 60, 3) for row in Examples(data, 1, seed=0).draw(start, 3).documents[:, 0]}
    assert drawn == {int(row) for ids in told.values() for row in data.corpus.rows(ids)}


def test_the_depth_bounds_what_is_asked(tmp_path, served):
    found = made(tmp_path, served, depth=2)
    assert found["judged"].facts["pairs"] == 6 and found["judged"].facts["negatives below the depth"] == 3
    assert all(len(item.negatives) <= 2 for item in rows(found["judged"]).values())


def test_where_every_query_goes_it_is_told(tmp_path, served):
    served.says = lambda message: "yes"
    with pytest.raises(DataError, match="judged: all 3 queries were dropped because each has a relevant negative"):
        made(tmp_path, served, outcome="drop-query")


def test_mistakes_are_told_with_their_path(tmp_path, served):
    def told(**judge: Any) -> str:
        with pytest.raises(RecipeError) as caught:
            load_recipe(written(tmp_path, tree_of(tmp_path, served, **judge)))
        return str(caught.value)

    assert "stages.judged.flag: set either reranker (a stage that trains one) or plugin" in told(flag={})
    assert "stages.judged.flag.reranker: 'mined' is of type negatives" in told(flag={"reranker": "mined"})
    assert "stages.judged.decide.plugin: bach: chat has no such option; did you mean 'batch'" in told(
        decide={"plugin": {**CHAT, "bach": 2}}
    )
    assert "stages.judged.flag.relevant: no such option; did you mean 'relevant_from'" in told(flag={"relevant": 1})
    low, high = (told(decide={"plugin": CHAT, "relevant_from": level}) for level in (0, 2))
    assert "stages.judged.decide.relevant_from: must be above 0 and at most 1, the best score, not 0" in low
    assert "stages.judged.decide.relevant_from: must be above 0 and at most 1, the best score, not 2" in high
    assert "stages.judged.split: 'mined' has queries of split train, not test; set split: train" in told(split="test")


def test_what_counts_is_in_the_key(tmp_path, served):
    def key(**judge: Any) -> str:
        return make_plan(load_recipe(written(tmp_path, tree_of(tmp_path, served, **judge)))).keys["judged"]

    decide = {**CHAT, "url": served.url}
    plain = key()
    assert key(decide={"plugin": {**decide, "url": "http://elsewhere/v1", "in_flight": 2}}) == plain
    others = [
        key(outcome="positive"),
        key(depth=5),
        key(flag={"plugin": decide}),
        key(decide={"plugin": decide, "relevant_from": 0.7}),
        key(decide={"plugin": {**decide, "model": "other"}}),
        key(decide={"plugin": {**decide, "prompt": "{query} {passages}"}}),
    ]
    assert len({plain, *others}) == 7


def test_what_is_made_once_a_seed_is_judged_by_its_own_judges():
    spec = with_references(TestJudge().spec(), {"some-negatives": "n-seed-1", "some-reranker": "r-seed-1"})
    assert [target for _, target, _ in spec.references()] == ["n-seed-1", "r-seed-1"]


def test_hidden_positives_that_were_found_are_counted(tmp_path, served):
    tree = tree_of(tmp_path, served)
    more = "".join(f"q1\td{number}\t1\n" for number in (2, 3, 6))
    with (tmp_path / "data" / "qrels" / "train.tsv").open("a") as file:
        file.write(more)
    (tmp_path / "data" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td4\t1\n")
    tree["dataset"] = {"name": "beir", "source": str(tmp_path / "data"), "withheld": {"positives": 0.99}}
    plan = make_plan(load_recipe(written(tmp_path, tree)))
    found = execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts
    facts, mined = found["judged"].facts, rows(found["mined"])["q1"]
    hidden = {"d1", "d2", "d3", "d6"} - {*mined.positives}
    assert facts["hidden positives"] == len(hidden & {*mined.negatives}) > 0
    right = [doc_id for doc_id in hidden & {*mined.negatives} if truth("q1", doc_id)]
    assert facts["hidden positives found"] == len(right)
