"""`evaluate` and `analyze` on objects in memory, and the same numbers from every way to evaluate."""

import json
import math

import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

import hardneg as hn
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.records import DataError, RecipeError, UsageError
from hardneg.stages.indexing import ReadDataset

QRELS = {"q1": {"a": 2, "b": 1}, "q2": {"a": 1}, "q3": ["c"]}
FIRST = {"q1": {"b": 2.0, "a": 1.0}, "q2": {"z": 2.0, "a": 1.0}, "q9": {"a": 1.0}}
SECOND = {"q1": {"a": 2.0}, "q2": {"a": 1.0}, "q3": {"c": 1.0}}


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    return {"store": tmp_path_factory.mktemp("store"), "device": "cpu"}


def test_means_and_tests_of_runs(at):
    found = hn.evaluate({"first": FIRST, "second": SECOND}, QRELS, metrics=["mrr@10", "recall@100"], **at)
    assert found.metrics["first"] == {"mrr@10": pytest.approx(0.5), "recall@100": pytest.approx(2 / 3)}
    assert found.metrics["second"]["mrr@10"] == 1.0
    assert found.per_query["first"]["mrr@10"] == {"q1": 1.0, "q2": 0.5, "q3": 0.0}
    [first, _] = found.comparisons
    assert (first.system, first.baseline, first.difference) == ("second", "first", pytest.approx(0.5))
    frame = found.to_pandas()
    assert list(frame.columns) == ["run", "metric", "mean", "low", "high"]
    assert frame["mean"][0] == pytest.approx(0.5)
    assert "second: mrr@10 1.0000" in repr(found)
    assert "| system | mrr@10 | recall@100 |" in found._repr_markdown_()


def test_metrics_never_replace_what_they_were_measured_from(at, tmp_path):
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 9 x\n")
    qrels.write_text("q1 0 a 1\n")
    found = hn.evaluate(run, qrels, **at)
    for path in (run, qrels):
        with pytest.raises(UsageError, match=path.name):
            found.write(path, overwrite=True)
    assert run.read_text() == "q1 Q0 a 1 9 x\n"
    found.write(tmp_path / "metrics.json")


def test_a_run_and_its_file_are_two_rows(at):
    run = hn.fuse({"one": FIRST, "two": SECOND}, "zip", **at)
    assert list(hn.evaluate({"a": run, "b": run.path}, QRELS, **at).metrics) == ["a", "b"]
    with pytest.raises(UsageError, match="two runs have the label 'zip'; give a dict"):
        hn.evaluate([run, run], QRELS, **at)
    with pytest.raises(UsageError, match="given twice"):
        hn.evaluate([run.path, run.path], QRELS, **at)


def test_what_must_be_known_stands_beside_the_figures(at):
    found = hn.evaluate({"first": FIRST, "second": SECOND}, QRELS, metrics=["recall@100"], relevance_level=2, **at)
    assert [*found.notes] == [
        "first: 1 judged query is not in the run and scores 0",
        "first: 1 query has no judgement and is ignored",
        "first: no list has more than 2 documents; recall@100 is cut there",
        "second: no list has more than 1 document; recall@100 is cut there",
        "2 queries have no document of grade 2 or higher and score 0 in recall@100",
    ]
    assert [*found.notes] == found.to_dict()["notes"]
    assert all(note in found._repr_markdown_() for note in found.notes)


def test_the_level_decides_what_is_marked(at):
    qrels = {f"q{i}": ["a"] for i in range(6)}
    runs = {"bad": {query: {"c": 2.0, "a": 1.0} for query in qrels}, "good": {query: {"a": 2.0} for query in qrels}}
    runs["bad"]["q0"] = {"c": 1.0}
    asked = {"metrics": ["mrr@10"], "baselines": ["bad"], **at}
    easy, strict = (hn.evaluate(runs, qrels, significance_level=level, **asked) for level in (0.05, 0.01))
    assert easy.comparisons[0].randomisation_holm == 2 / 2**6
    assert "▲" in easy._repr_markdown_() and "p \\< 0.05" in easy._repr_markdown_()
    assert "▲" not in strict._repr_markdown_()
    assert easy.to_dict()["significance_level"] == 0.05
    with pytest.raises(UsageError, match="significance_level: must be less than 1"):
        hn.evaluate(runs, qrels, significance_level=1, **at)


def test_runs_that_hardly_differ_are_equivalent_within_a_margin_and_groups_of_queries_count(at, tmp_path):
    qrels = {f"q{i}": ["a"] for i in range(12)}
    runs = {"one": {query: {"a": 2.0} for query in qrels}, "same": {query: {"a": 1.0} for query in qrels}}
    groups = tmp_path / "groups.tsv"
    groups.write_text("".join(f"q{i}\t{i // 4}\n" for i in range(12)))
    asked = {"metrics": ["mrr@10"], "baselines": ["one"], **at}
    asked |= {"equivalence_margin": 0.5}
    whole, grouped = (hn.evaluate(runs, qrels, **asked, query_groups=path) for path in (None, groups))
    assert [each["verdict"] for each in whole.to_dict()["comparisons"]] == ["equivalent"]
    assert "equivalent" in whole._repr_markdown_()
    # one query in two would have to differ: none of 12 does, or none of three groups
    assert [found.comparisons[0].equivalence_p for found in (whole, grouped)] == [2**-12, 2**-3]
    assert grouped.to_dict()["comparisons"][0]["verdict"] == "undecided"
    with pytest.raises(UsageError, match="equivalence_margin: must be greater than 0"):
        hn.evaluate(runs, qrels, equivalence_margin=0, **at)
    with pytest.raises(UsageError, match="by_group needs a dataset with groups of queries; choose one, or give"):
        hn.evaluate(runs, qrels, by_group=True, **at)


def test_mistakes_in_what_is_to_be_measured(at):
    with pytest.raises(UsageError, match="unknown baseline 'third'; available: first"):
        hn.evaluate({"first": FIRST}, QRELS, baselines=["third"], **at)
    with pytest.raises(DataError, match=r"qrels\['q1'\]\['a'\]: the grade must be a whole number, not 'high'"):
        hn.evaluate(FIRST, {"q1": {"a": "high"}}, **at)
    with pytest.raises(UsageError, match="no judgements; give"):
        hn.evaluate(FIRST, **at)


def test_runs_are_fused_by_hand_computed_sums(at):
    two = {"one": {"q": {"a": 4.0, "b": 2.0}}, "two": {"q": {"b": 6.0, "c": 2.0}}}
    fused = hn.fuse(two, weights={"two": 0.5}, **at)
    # a: 4 + 0.5 × 2 (the lowest), b: 2 + 0.5 × 6, c: 2 (the lowest) + 0.5 × 2
    assert fused.to_dict() == {"q": {"a": pytest.approx(5), "b": pytest.approx(5), "c": pytest.approx(3)}}
    again = hn.fuse(two, weights={"two": 0.5}, **at)
    assert again.key == fused.key
    with pytest.raises(UsageError, match="no run has the label 'tow'; did you mean 'two'"):
        hn.fuse({"one": FIRST, "two": SECOND}, weights={"tow": 1}, **at)
    with pytest.raises(UsageError, match="give at least two runs"):
        hn.fuse([FIRST], **at)


def test_weights_are_tuned_on_other_queries(at):
    runs = {"good": {"q5": {"a": 1.0, "b": 0.5}}, "bad": {"q5": {"b": 1.0, "a": 0.5}}}
    others = {"good": {"q1": {"x": 9.0, "y": 1.0}}, "bad": {"q1": {"y": 9.0, "x": 1.0}}}
    fused = hn.fuse(runs, tune_runs=others, qrels={"q1": {"x": 1}}, metric="mrr@10", grid={"bad": [3.0, 0.0]}, **at)
    assert list(fused.to_dict()["q5"]) == ["a", "b"]


def test_a_recipe_is_changed_planned_and_run(at, tmp_path, tiny_model):
    small_collection(tmp_path / "data")
    text = "dataset: beir:nowhere\nmodel: {name: nowhere}\nstages:\n  index: {stage: encode}\n"
    text += "  run: {stage: search, index: index, depth: 5}\n"
    text += "  scores: {stage: evaluate, runs: {ours: run}, metrics: [mrr@5]}\n"
    (tmp_path / "mine.yaml").write_text(text)
    chosen = hn.load_recipe(tmp_path / "mine.yaml").set("stages.run.depth=9", model__name=tiny_model)
    missing = [need.subject for need in chosen.check(**at) if need.missing]
    assert missing == ["beir:nowhere"]
    ready = chosen.set(dataset=tmp_path / "data")
    plan = ready.plan(**at)
    assert plan.ahead == ["dataset", "index", "run", "scores"]
    assert "4 of 4 steps to run" in repr(plan)
    done = ready.run(tmp_path / "out", **at)
    assert done.ran == ("dataset", "index", "run", "scores")
    assert {name: each.key for name, each in done.artifacts.items()} == plan.keys
    assert set(done.evaluation.metrics) == {"ours"}
    assert done.index.path == tmp_path / "out" / "index"
    again = ready.run(tmp_path / "out", **at)
    assert again.ran == ()
    run = hn.search(tmp_path / "data", tiny_model, depth=9, **at)
    assert run.key == plan.keys["run"]
    assert hn.evaluate(run, metrics=["mrr@5"], **at).metrics[run.name] == pytest.approx(done.evaluation.metrics["ours"])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.json").write_text("mine")
    with pytest.raises(
        UsageError, match=r"metrics.json: already exists and was not written by .* or overwrite=True to replace it"
    ):
        ready.run(tmp_path / "other", **at)
    with pytest.raises(RecipeError, match="depth"):
        ready.set(stages__run__depth="deep").plan(**at)


def test_an_analysis_of_runs_in_memory(at, tmp_path):
    found = hn.analyze("query-wins", run=SECOND, against=FIRST, qrels=QRELS, metric="mrr@10", **at)
    cases = {case["query_id"]: case["difference"] for case in found.to_dict()["queries"]}
    assert cases == {"q1": 0.0, "q2": 0.5, "q3": 1.0}
    assert "| query |" in found._repr_markdown_()
    found.draw(tmp_path / "wins.png")
    assert (tmp_path / "wins.png").stat().st_size > 1000
    several = hn.analyze("recall-at-depth", runs={"first": FIRST, "second": SECOND}, qrels=QRELS, **at)
    assert set(several.to_dict()["runs"]) == {"first", "second"}


def test_what_is_written_replaces_nothing_but_its_own(at, tmp_path):
    found, thesis = hn.evaluate({"first": FIRST}, QRELS, **at), tmp_path / "thesis.tex"
    thesis.write_text("mine")
    with pytest.raises(UsageError, match=r"thesis.tex: already exists .* written by `Evaluation.write`; give anoth"):
        found.write(thesis)
    assert thesis.read_text() == "mine"
    found.write(thesis, overwrite=True)
    found.write(thesis)
    thesis.write_text("mine again")
    with pytest.raises(UsageError, match="already exists"):
        found.write(thesis)
    for odd, told in ((tmp_path, "is a folder"), (None, "path: must be a path, not None")):
        with pytest.raises(UsageError, match=told):
            found.write(odd, overwrite=True)
    wins = hn.analyze("query-wins", run=SECOND, against=FIRST, qrels=QRELS, metric="mrr@10", **at)
    (tmp_path / "wins.svg").write_text("mine")
    with pytest.raises(UsageError, match=r"wins.svg: already exists .* written by `AnalysisResult.draw`"):
        wins.draw(tmp_path / "wins.png", tmp_path / "wins.svg")
    assert not (tmp_path / "wins.png").exists()


def test_mistakes_in_what_is_to_be_analysed(at):
    with pytest.raises(UsageError, match="analyze query-wins: rnu: no such option; did you mean 'run'"):
        hn.analyze("query-wins", rnu=FIRST, against=SECOND, qrels=QRELS, **at)
    with pytest.raises(UsageError, match="analyze query-wins: against: "):
        hn.analyze("query-wins", run=FIRST, qrels=QRELS, **at)


METRICS = ["ndcg@10", "recall@10", "mrr@10"]
ALL_QRELS = {"q1": {"d1": 1, "gone": 1}, "q2": {"gone": 1}, "q3": {"d3": 1}, "unasked": {"d1": 1}}
RUN = {"q1": {"d1": 2.0, "d3": 1.0}, "q2": {"d1": 1.0}, "q3": {"d1": 2.0, "d3": 1.0}}
EXPECTED = {
    "ndcg@10": (1 / (1 + 1 / math.log2(3)) + 1 / math.log2(3)) / 4,
    "recall@10": (0.5 + 1) / 4,
    "mrr@10": (1 + 0.5) / 4,
}


@pytest.fixture
def folder(tmp_path):
    """A collection that lacks a document and a query of its judgements."""
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(1, 5)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(1, 4)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = "".join(f"{name}\t{doc}\t{grade}\n" for name, judged in ALL_QRELS.items() for doc, grade in judged.items())
    (tmp_path / "data" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return tmp_path / "data"


def test_what_a_dataset_lacks_is_missed(folder, tmp_path):
    by_dataset = hn.evaluate(RUN, dataset=folder, split="test", metrics=METRICS, store=tmp_path / "store")
    assert by_dataset.metrics["run 1"] == pytest.approx(EXPECTED)
    assert hn.evaluate(RUN, ALL_QRELS, metrics=METRICS).metrics["run 1"] == pytest.approx(EXPECTED)


def test_the_stage_and_an_analysis_measure_by_them_too(folder, tmp_path, tiny_model):
    """All four documents are found for each query that has a text."""
    stages = {
        "scores": {"stage": "evaluate", "runs": {"start": "start-test"}, "metrics": ["recall@10"]},
        "depth": {
            "stage": "analyze",
            "analysis": {"recall-at-depth": {"runs": {"start": "start-test"}, "depths": [4]}},
        },
    }
    tree = small_part(folder, tiny_model, "start-index", "start-test", **stages)
    made = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    found = read_metrics(made["scores"].path / "metrics.json").results["start"]
    assert found["recall@10"] == {"q1": 0.5, "q2": 0, "q3": 1, "unasked": 0}
    content = json.loads((made["depth"].path / "recall-at-depth.json").read_text())
    assert content["runs"]["start"]["recall"] == [1.5 / 4]


def test_a_dict_breaks_ties_as_a_file_of_it_does(tmp_path):
    """Descending by id, as trec_eval: c before b."""
    (tmp_path / "run").write_text("q1 Q0 b 1 1.0 t\nq1 Q0 c 2 1.0 t\nq1 Q0 a 3 2.0 t\n")
    runs = {"file": tmp_path / "run", "dict": {"q1": {"b": 1.0, "c": 1.0, "a": 2.0}}}
    found = hn.evaluate(runs, {"q1": {"b": 1}}, metrics=["mrr", "ndcg"]).metrics
    assert found["file"] == found["dict"] == pytest.approx({"mrr": 1 / 3, "ndcg": 0.5})
    fused = hn.fuse([runs["dict"], runs["dict"]], store=tmp_path / "store")
    assert fused["q1"].doc_ids == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("loader", "own", "excludes"),
    [
        ("hf:BeIR/ArguAna", None, True),
        ("ir-datasets:beir/quora/test", None, True),
        ("beir:/data/quora", None, True),
        ("beir:/data/quora", False, False),
        ("beir:/data/quora-like", None, False),
        ("beir:/data/mine", True, True),
    ],
)
def test_own_documents_are_excluded_by_name_or_where_that_is_said(loader, own, excludes):
    stage = ReadDataset.model_validate({"loader": loader, "exclude_own": own})
    assert stage._excludes == excludes


def test_measures_leave_own_documents_out(folder, tmp_path):
    """q3 is a document that its list begins with; its figure is that of the rest."""
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "q3", "text": "query 3"}\n')
    run = {**RUN, "q3": {"q3": 3.0, "d3": 1.0}}
    arguments = {"dataset": folder, "split": "test", "metrics": ["mrr@10"], "store": tmp_path / "store"}
    plain = hn.evaluate(run, **arguments).metrics["run 1"]["mrr@10"]
    left = hn.evaluate(run, **arguments, settings={"dataset.exclude_own": True}).metrics["run 1"]["mrr@10"]
    assert (plain, left) == (pytest.approx((1 + 0.5) / 4), pytest.approx((1 + 1) / 4))
