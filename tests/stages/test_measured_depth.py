"""A recipe whose figures would not be what they are called: refused, or noted, before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import artifacts_of, recipe_in, small_collection, small_part
from tiny import tiny_encoder

from hardneg.evaluation.metrics_json import read_metrics
from hardneg.formats.collection import StoredCollection
from hardneg.recipes import Options, Recipe, Watcher, execute, make_plan
from hardneg.records import METRICS, HardnegError, RecipeError
from hardneg.store import Store


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    tree = small_part(
        small_collection(tmp_path / "data"), tiny_encoder(tmp_path / "model"), "start-index", "start-test"
    )
    tree["stages"]["bm25-index"] = {"stage": "index", "backend": "bm25"}
    tree["stages"]["bm25"] = {"stage": "search", "index": "bm25-index", "depth": 10}
    tree["stages"]["scores"] = {"stage": "evaluate", "runs": {"start": "start-test"}, "metrics": ["mrr@10"]}
    return tree


def loaded(tmp_path: Path, tree: dict[str, Any], **scores: Any) -> Recipe:
    tree["stages"]["scores"] |= scores
    return recipe_in(tmp_path, tree)


def test_a_metric_cut_deeper_than_a_search(tmp_path, tree):
    told = r"stages.scores.runs.start: 'start-test' has 20 documents of a query at most, too few for recall@100; "
    with pytest.raises(RecipeError, match=told + "raise its depth to 100, or name the row's metrics in metrics_of"):
        loaded(tmp_path, tree, metrics=["mrr@10", "recall@20", "recall@100"])
    loaded(tmp_path, tree, metrics=["mrr@10", "recall@20", "map"])


@pytest.mark.parametrize(
    ("stage", "longest"),
    [
        ({"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}}, 30),
        ({"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}, "depth": 12}, 12),
        ({"stage": "rerank", "run": "start-test", "plugin": "cross-encoder:nowhere"}, 20),
        ({"stage": "rerank", "run": "start-test", "plugin": "cross-encoder:nowhere", "depth": 15}, 15),
        ({"stage": "search", "index": "start-index", "candidates": "bm25"}, 10),
    ],
)
def test_through_what_is_made_of_runs(tmp_path, tree, stage, longest):
    tree["stages"]["made"] = stage
    with pytest.raises(RecipeError, match=f"'made' has {longest} documents of a query at most"):
        loaded(tmp_path, tree, runs={"made": "made"}, metrics=[f"recall@{longest + 1}"])
    loaded(tmp_path, tree, runs={"made": "made"}, metrics=[f"recall@{longest}"])


def test_a_run_of_the_queries_of_a_file_has_no_split(tmp_path, tree):
    tree["stages"]["start-test"]["queries"] = str(tmp_path / "asked.tsv")
    (tmp_path / "asked.tsv").write_text("q1\twords\n")
    tree["stages"]["again"] = {"stage": "rerank", "run": "start-test", "plugin": "cross-encoder:nowhere"}
    assert loaded(tmp_path, tree, split="dev", runs={"start": "start-test", "again": "again"}).notes == ()


def test_tuning_by_a_metric_cut_deeper_than_its_runs(tmp_path, tree):
    stages = tree["stages"]
    for name, index in {"start-dev": "start-index", "bm25-dev": "bm25-index"}.items():
        stages[name] = {"stage": "search", "index": index, "split": "dev", "depth": 5}
    tuning = {"runs": {"a": "start-dev", "b": "bm25-dev"}, "metric": "recall@20"}
    stages["made"] = {"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}, "tuning": tuning}
    with pytest.raises(RecipeError, match=r"stages.made.tuning.metric: recall@20 of lists of at most 10 documents"):
        loaded(tmp_path, tree)


def test_a_row_with_fewer_metrics(tmp_path, tree):
    rows = {"start": "start-test", "BM25": "bm25"}
    asked = {"runs": rows, "metrics": ["mrr@10", "recall@20"], "baselines": ["BM25"]}
    with pytest.raises(RecipeError, match=r"metrics_of.BM52: no row 'BM52'; did you mean"):
        loaded(tmp_path, tree, **asked, metrics_of={"BM52": ["mrr@10"], "BM25": ["mrr@10"]})
    with pytest.raises(RecipeError, match=r"metrics_of.BM25: mrr@5 is none of metrics"):
        loaded(tmp_path, tree, **asked, metrics_of={"BM25": ["mrr@5"]})
    plan = make_plan(loaded(tmp_path, tree, **asked, metrics_of={"BM25": ["mrr@10"]}))
    made = artifacts_of(plan, tmp_path / "store", until="scores")["scores"]
    measured = read_metrics(made.path / METRICS)
    assert [*measured.results["BM25"]] == ["mrr@10"] and [*measured.results["start"]] == ["mrr@10", "recall@20"]
    assert {each.metric for each in measured.comparisons} == {"mrr@10"} and measured.notes == ()


def test_a_level_that_no_judgement_reaches(tmp_path, tree):
    plan = make_plan(loaded(tmp_path, tree, relevance_level=2))
    told = r"stages.scores.relevance_level: no judgement of split test reaches it, the highest is 1"
    with pytest.raises(RecipeError, match=told):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    loaded(tmp_path, tree, relevance_level=2, metrics=["ndcg@10"])


def test_judgements_that_are_of_nothing_in_the_dataset(tmp_path, tree):
    plan = make_plan(loaded(tmp_path, tree))
    path = Path(plan.recipe.dataset.loader.options["source"]) / "qrels" / "test.tsv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *(line.replace("\td", "\tnone-d") for line in lines)]) + "\n")
    plan = make_plan(loaded(tmp_path, tree))
    with pytest.raises(
        RecipeError, match=r"stages.scores.split: no judgement of split test is of a query and a document"
    ):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())


def test_groups_are_drawn_where_the_dataset_has_some(tmp_path, tree):
    asked = {"runs": {"start": "start-test", "BM25": "bm25"}, "by_group": "where_known"}
    plan = make_plan(loaded(tmp_path, tree, **asked))
    folder = Path(plan.recipe.dataset.loader.options["source"])
    without = artifacts_of(plan, tmp_path / "store", until="scores")
    collection = StoredCollection.open(without["dataset"].path)
    queries = [query.query_id for query in collection.queries("test")]
    (folder / "groups.tsv").write_text("".join(f"{name}\t{number // 2}\n" for number, name in enumerate(queries)))
    grouped = artifacts_of(make_plan(loaded(tmp_path, tree, **asked)), tmp_path / "store", until="scores")
    groups = [
        {each.groups for each in read_metrics(made["scores"].path / METRICS).comparisons} for made in (without, grouped)
    ]
    assert groups == [{None}, {len(queries) // 2}]


def test_margin_and_groups_are_kept_and_move_no_key_where_they_are_not_said(tmp_path, tree):
    runs = {"start": "start-test", "BM25": "bm25"}
    before = make_plan(loaded(tmp_path, tree, runs=runs)).keys["scores"]
    same = {"equivalence_margin": 0.005, "by_group": False}
    assert make_plan(loaded(tmp_path, tree, runs=runs, **same)).keys["scores"] == before
    assert make_plan(loaded(tmp_path, tree, runs=runs, equivalence_margin=0.01)).keys["scores"] != before
    groups = tmp_path / "groups.tsv"
    groups.write_text("nobody\tx\n")
    asked = {"runs": runs, "equivalence_margin": 0.01, "query_groups": str(groups)}
    plan = make_plan(loaded(tmp_path, tree, **asked))
    with pytest.raises(HardnegError, match="have no group"):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    collection = StoredCollection.open(Store(tmp_path / "store").find(plan.keys["dataset"]).path)
    queries = [query.query_id for query in collection.queries("test")]
    groups.write_text("".join(f"{name}\t{position // 2}\n" for position, name in enumerate(queries)))
    again = make_plan(loaded(tmp_path, tree, **asked))
    assert again.keys["scores"] != plan.keys["scores"]
    made = execute(again, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    measured = read_metrics(made.artifacts["scores"].path / METRICS)
    assert measured.equivalence_margin == 0.01 and {each.groups for each in measured.comparisons} == {len(queries) // 2}
    with pytest.raises(RecipeError, match="by_group: query_groups has the groups of a file"):
        loaded(tmp_path, tree, **asked, by_group=True)
    grouped = make_plan(loaded(tmp_path, tree, by_group=True, query_groups=None))
    with pytest.raises(RecipeError, match="by_group: no query of this dataset has a group"):
        execute(grouped, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
