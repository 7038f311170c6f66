import json
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hardneg_example.pool import POOL, Pool, pool

from hardneg.formats.collection import write_collection
from hardneg.formats.runs import write_run
from hardneg.recipes import Recipe, load_recipe, make_plan, names
from hardneg.records import RUN, PluginSetting, RankedList, RecipeError
from hardneg.registry import configure
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.testing import StageTests

RECIPE = Path(__file__).parents[1] / "recipes" / "judging.yaml"


class TestPool(StageTests):
    stage = Pool
    mapping = MappingProxyType({"stage": "pool", "runs": {"a": "some-run", "b": "other-run"}})


def ranked(*doc_ids: str) -> RankedList:
    return RankedList(list(doc_ids), np.arange(len(doc_ids), 0, -1, dtype=np.float32))


def test_a_document_stands_once_with_the_runs_that_have_it() -> None:
    found = pool({"a": ranked("d9", "d2", "d1"), "b": ranked("d2", "d3", "d1")}, depth=2)
    assert list(found.items()) == [("d2", ["a", "b"]), ("d3", ["b"]), ("d9", ["a"])]


def made_input(folder: Path, name: str) -> ArtifactInput:
    (folder / name).mkdir()
    return ArtifactInput(name, "", folder / name)


def test_what_is_judged_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "beir"
    (source / "qrels").mkdir(parents=True)
    texts = {"d1": "one\ttext", "d2": "two", "d3": "three"}
    rows = [json.dumps({"_id": doc_id, "title": "", "text": text}) + "\n" for doc_id, text in texts.items()]
    (source / "corpus.jsonl").write_text("".join(rows))
    (source / "queries.jsonl").write_text('{"_id": "q1", "text": "who"}\n{"_id": "q2", "text": "where"}\n')
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td3\t1\n")
    inputs = {path: made_input(tmp_path, path) for path in ("dataset", "runs.a", "runs.b")}
    loader = configure("datasets", PluginSetting("beir", {"source": str(source)}))
    write_collection(loader.load(), inputs["dataset"].folder, Silent())
    write_run(inputs["runs.a"].folder / RUN, [("q1", ranked("d1", "d2")), ("q2", ranked("d3"))])
    write_run(inputs["runs.b"].folder / RUN, [("q1", ranked("d2", "d1", "d3"))])
    spec = Pool.model_validate({"stage": "pool", "runs": {"a": "first", "b": "second"}, "depth": 2})
    (tmp_path / "made").mkdir()
    facts = spec.make(StageContext("to-judge", spec, tmp_path / "made", inputs, {}, Silent()))
    assert facts == {"queries": 2, "to judge": 1, "judged before": 2}
    head, line = (tmp_path / "made" / POOL).read_text().splitlines()
    assert head.split("\t") == ["query_id", "doc_id", "runs", "query", "document"]
    assert line.split("\t") == ["q1", "d1", "a, b", "who", "one text"]
    [section] = spec.sections({"Pool": ArtifactInput("to-judge", "", tmp_path / "made", spec, facts=facts)})
    assert section.tables[0].rows == [["Pool", "2", "1", "2"]]


def loaded(*settings: str) -> Recipe:
    return load_recipe(RECIPE, settings=settings)


def test_a_recipe_takes_it_up() -> None:
    plan = make_plan(loaded(), [])
    assert plan.steps["to-judge"].inputs["runs.BM25"] == "bm25"
    assert plan.steps["report"].inputs["analyses.BM25 and the model"] == "to-judge"
    assert "pools/to-judge.tsv" in names(plan)
    deeper = make_plan(loaded("stages.to-judge.depth=20"), [])
    changed = {name for name, key in deeper.keys.items() if key != plan.keys[name]}
    assert changed == {"to-judge", "report"}


def test_mistakes_are_told_together() -> None:
    with pytest.raises(RecipeError) as caught:
        loaded("stages.start-test.positives=true", "stages.bm25.split=dev", "stages.report.analyses.more=start-index")
    told = "\n".join(caught.value.problems)
    assert "stages.to-judge.runs.as shipped: 'start-test' has added positives; use one without" in told
    assert "stages.to-judge.runs.BM25: 'bm25' searches split dev, not test; use a run of the same split" in told
    assert "report.analyses.more: 'start-index' is of type index, expected section; available: scores" in told
    with pytest.raises(RecipeError, match=r"stages\.to-judge\.dept: no such option; did you mean 'depth'"):
        loaded("stages.to-judge.dept=3")
