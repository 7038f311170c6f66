"""`hardneg recommend`: what it prints and writes, and that the recipe runs."""

import json
from dataclasses import replace

import pytest
import yaml
from recipe.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

import hardneg as hn
from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_recipe import RecommendRequest
from hardneg.api.recommended_rule import RULE as SAID
from hardneg.api.recommended_rule import Situation
from hardneg.api.recommended_trials import Trials, in_order
from hardneg.api.recommending import fitted
from hardneg.cli.main import app
from hardneg.encoders.spec import ModelSpec
from hardneg.recipe.load import load_recipe
from hardneg.records.errors import RecipeError, UsageError


def row(miner, let_in, planted, hardness, enough=1.0, by="", ends=None):
    found = {"let_in": let_in, "planted": planted, "hardness": hardness, "enough": enough, "let_in_interval": ends}
    return {"miner": miner, "by": by, **found}


ROWS = [
    row({"name": "topk", "depth": 10}, 0.5, 0.1, -0.1),
    row({"name": "topk", "depth": 20}, 0.5, 0.01, -0.2, ends=[0.187, 0.813]),
    row({"name": "pos-percent", "share": 0.95, "depth": 20, "count": 10}, None, None, None, 0.0, "reranked"),
]
RULE = {"said": "R.", "most_planted": 0.01}
FOUND = {
    "miners": ROWS,
    "chosen": 1,
    "kept": True,
    "listed": 20,
    "best_of_each_depth": [1, 0],
    "best_of_each_way": [1, 2],
    "rule": RULE,
    "planted": {"kind": "judged", "queries": 9, "planted": 12},
}

RANKS = {"queries": 9, "listed": 20, "depth": 10, "median_rank": 4.0, "within": {"1": 0.3, "10": 0.6, "100": 1.0}}
RANKS |= {"above": 0.4, "nearer": 0.25, "siblings": None, "ranks": [1, 4, 12]}


def situation(found=None, documents=3200, batch=32, **ranks):
    """3,200 documents in batches of 32: a batch's nearest one stands at rank 100 on average."""
    return Situation({**RANKS, **ranks}, FOUND if found is None else found, documents, batch)


def answer_of(found, tried=None, goal=None, **ranks):
    return Recommendation(found, tried, situation(found, **ranks), goal)


def with_false(share):
    """The sweep, with that share of the first 10 planted."""
    return {**FOUND, "miners": [{**ROWS[0], "planted": share}, *ROWS[1:]]}


FALSE = with_false(0.6)
"""Where the sweep chooses: more than half of the first 10 are false."""


def trials(alone, first, second):
    """Scores of ten queries by each training, around its mean."""
    added = [0.01 * query for query in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)]
    scores = {
        name: {str(query): mean + added[query - turn] for query in range(10)}
        for turn, (name, mean) in enumerate({"in-batch": alone, "model-1": first, "model-2": second}.items())
    }
    return Trials(in_order(scores), 5)


@pytest.fixture
def hardneg(tmp_path, monkeypatch):
    """Runs `recommend` in a folder with a collection and a model; gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    small_collection(tmp_path / "data")

    def run(*arguments):
        given = ["recommend", "--dataset", "beir:data", "--model", "model", "--device", "cpu", *map(str, arguments)]
        result = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return run


def test_by_the_rule_or_by_trials():
    assert answer_of(FOUND).chosen_row == 0 and answer_of(FALSE).chosen_row == 1
    assert answer_of(FOUND, trials(0.1, 0.3, 0.4)).chosen_row == 0
    assert answer_of(FOUND, trials(0.1, 0.4, 0.4)).chosen_row == 1  # of equal ones the first
    assert not answer_of(FOUND, trials(0.4, 0.3, 0.4)).alone
    poor = answer_of(FOUND, trials(0.5, 0.3, 0.4))
    assert poor.alone and " ".join(poor.tried_in_words()).endswith(
        "The recipe has in-batch negatives alone, which came out highest."
    )
    assert poor.rule().endswith("in this order: R.") and "training of 5 steps has the highest mrr@10" in poor.rule()


def test_trainings_try_the_first_documents_too():
    assert situation().tried == [1, 0]
    assert situation({**FOUND, "best_of_each_depth": [1, 2]}).tried == [1, 2, 0]
    asked = RecommendRequest("dev", 20, {"name": "cross-encoder", "source": "ce"}, {})
    stages = asked.trials([ROWS[row] for row in (1, 2, 0)], 5)
    miners = [stages[f"negatives-{number}"]["miner"] for number in (1, 2, 3)]
    assert miners == [ROWS[1]["miner"], ROWS[2]["miner"], ROWS[0]["miner"]]
    assert list(stages["trials"]["runs"]) == ["in-batch", "model-1", "model-2", "model-3"]


def test_the_top_of_the_lists_where_positives_rank_high_and_batches_do_not_reach():
    answer = answer_of(FOUND)
    facts, top, recall = answer.reasons()
    assert facts == (
        "3,200 documents, 32 queries a step; best positives of 9 queries: median rank 4, 60.0% in the first 10; "
        "of the first 10, 40.0% score above it; 25.0% are nearer to it than the query is; "
        "10.0% of them are planted positives."
    )
    assert top == (
        "For the top of the lists (MRR@10): topk, 10 a query, one of them in a step. Half of the queries have their "
        "best positive at rank 4 or better, so it is the first 10 that it is mistaken for, and batches seldom have "
        "them: the nearest in-batch negative of 32 queries stands at about rank 100."
    )
    assert recall.startswith("For recall (R@100): in-batch negatives alone. ")
    assert not answer.alone and answer.rule() == SAID
    assert "siblings of a positive in its group: 5.5." in answer_of(FOUND, siblings=5.5, nearer=None).reasons()[0]


def test_in_batch_is_enough_where_positives_rank_low():
    assert not answer_of(FOUND, median_rank=10.0).alone  # as many as are taken
    low = answer_of(FOUND, median_rank=10.5)
    assert low.alone and low.chosen_row == 0
    assert "best positive at rank 10.5 or lower, so the first 10 are but few of those above it" in low.reasons()[1]
    assert "at rank below 20 or lower" not in answer_of(FOUND, median_rank=21.0).reasons()[1]
    assert low.evidence().startswith("Of hard negatives: topk, 10 a query")
    assert [line[0] for line in low.tables()[0].rows if line[-1] == "chosen"] == []


def test_in_batch_is_enough_where_batches_reach_the_top_of_the_lists():
    assert not answer_of(FOUND, documents=3201, batch=320).alone
    near = answer_of(FOUND, documents=3200, batch=320)  # the nearest of 320 stands at rank 10
    assert near.alone and "Of 3,200 documents, the nearest in-batch negative of 320 queries" in near.reasons()[1]


def test_where_most_of_the_top_is_false_the_sweep_chooses():
    assert answer_of(with_false(0.5)).chosen_row == 0  # half of them still helped
    assert answer_of(with_false(None)).chosen_row == 0
    answer = answer_of(FALSE)
    assert answer.chosen_row == 1 and not answer.alone
    assert answer.reasons()[1].endswith("But 60.0% of the first 10 are false: topk, 20 a query lets fewer in.")


def test_the_goal_is_named_or_both_are_answered():
    low, recall, top = answer_of(FOUND, median_rank=99.0), answer_of(FOUND, goal="recall"), answer_of(FOUND, goal="top")
    assert [len(each.reasons()) for each in (low, recall, top)] == [3, 2, 2]
    assert recall.alone and not top.alone and not answer_of(FOUND).alone  # the recipe of both is the one for the top
    told = recall.to_dict()
    assert told["goal"] == "recall" and told["in_batch_alone"]
    assert told["advice"]["top"] == {"row": 0, "alone": False, "reason": top.situation.advice("top").reason}
    assert (told["facts"]["reach"], told["facts"]["false"], told["facts"]["median_rank"]) == (100.0, 0.1, 4.0)
    assert (
        answer_of(FOUND, trials(0.1, 0.3, 0.4), goal="recall").alone is False
    )  # trainings decide where there are some
    metrics = [RecommendRequest("dev", 20, None, {}, goal=goal).metric for goal in (None, "top", "recall")]
    assert metrics == ["mrr@10", "mrr@10", "recall@100"]
    with pytest.raises(UsageError, match=r"'tops': no such goal; did you mean 'top'\?; there are top, recall"):
        RecommendRequest("dev", 20, None, {}, goal="tops")


def test_table_sentence_and_recipe_say_the_same(tmp_path):
    answer = answer_of(FALSE, trials(0.1, 0.3, 0.4))  # by the rule 20 a query, by the trainings 10
    sweep, tried = answer.tables()
    assert [line[:2] for line in sweep.rows if line[-1] == "chosen"] == [["topk", "10"]]
    assert [line[:2] for line in tried.rows if line[-1] == "chosen"] == [["topk", "10"]]
    assert answer.evidence().startswith("Chosen: topk, 10 a query")
    assert "The recipe has topk, 10 a query" in " ".join(answer.tried_in_words())
    assert answer.to_dict()["chosen"] == answer.sweep()["chosen"] == 0
    text = answer.recipe(RecommendRequest("dev", 20, None, {}), TREE, FACTS, tmp_path / "r.yaml")
    assert "miner:\n      name: topk\n      depth: 10\n" in text
    none = answer_of(FOUND, trials(0.5, 0.3, 0.4)).tables()
    assert [[line[0] for line in table.rows if line[-1] == "chosen"] for table in none] == [
        [],
        ["in-batch negatives alone"],
    ]


def test_trainings_have_intervals_and_what_is_not_told_apart_will_do():
    apart = trials(0.1, 0.3, 0.4)
    assert apart.as_good == ["model-2"]
    told = " ".join(answer_of(FOUND, apart).tried_in_words())
    assert "Better than all others (paired tests" in told and "correction over all pairs): topk, 10 a query." in told
    # Differences of .01 with signs that even out, over four queries: p is 1 in both tests.
    even = {"in-batch": [0.0, 0.0, 0.0, 0.0], "model-1": [0.5, 0.6, 0.5, 0.6], "model-2": [0.51, 0.59, 0.51, 0.59]}
    close = Trials({name: dict(zip("abcd", values, strict=True)) for name, values in even.items()}, 5)
    told = " ".join(answer_of(FOUND, close).tried_in_words())
    assert "mrr@10 on 4 dev queries after 5 steps, one seed" in told
    assert "topk, 20 a query 0.5500 [0.458, 0.642]" in told  # .55 ± 3.182 × .05774 / 2, by Student's t
    assert "None is told apart" in told and "in-batch negatives alone; topk, 20 a query; topk, 10 a query." in told
    assert "Any of these will do." in told
    assert close.to_dict()["model-2"]["p_against_best"] == 1.0
    # In-batch negatives are .55 away: t is 19, but four queries have 16 patterns of signs, so p is 1/8 at best.
    assert close.to_dict()["in-batch"]["not_told_apart"]


def test_the_evidence_in_words():
    told = answer_of(FALSE).evidence()
    assert told.startswith(
        "Chosen: topk, 20 a query: lets in 50.0% [18.7, 81.3] of what is planted, 1.0% of its negatives are"
    )
    assert "Beside it" not in told and "Beside it, topk, 20 a query" in answer_of(FOUND).evidence()
    missed = answer_of({**FALSE, "chosen": 2, "kept": False}).evidence()
    assert "pos-percent 0.95 by reranked, 10 a query" in missed and "hardness unknown" in missed
    assert missed.endswith("No miner keeps all bounds of the sweep: this is the nearest to them.")


@pytest.fixture
def model(tmp_path):
    """A model at the place that `hardneg` names."""
    tiny_static(tmp_path / "model")


@pytest.mark.slow
def test_it_chooses_and_writes_a_recipe_and_figures(hardneg, model, tmp_path):
    first = hardneg("--depth", "20", "--train-option", "learning_rate=0.01", "--train-option", "batch_size=2")
    assert "one half of a known positive" in first.stdout and "chosen" in first.stdout
    assert first.stdout.splitlines()[-1] == "recommended.yaml: hardneg recipe run recommended.yaml"
    assert {path.suffix for path in tmp_path.glob("recommended.*")} == {".yaml", ".png", ".svg"}
    text = (tmp_path / "recommended.yaml").read_text()
    assert "# The rule: For the top of the lists" in text and "# For recall (R@100): in-batch" in text
    assert "For the top of the lists (MRR@10): " in first.stdout and "For recall (R@100): " in first.stdout
    recipe = load_recipe(tmp_path / "recommended.yaml", None, [])
    assert recipe.stages["model"].options.learning_rate == 0.01 and recipe.stages["scores"].split == "test"
    again = hardneg("--depth", "20", "--json", "--overwrite")
    found = json.loads(again.stdout)
    assert found["recipe"] == "recommended.yaml" and found["trials"] is None
    miner = found["miners"][found["chosen"]]["miner"]
    assert {"name": recipe.stages["negatives"].miner.name, **recipe.stages["negatives"].miner.options} == miner
    assert again.stderr.count("in the store") == 4
    assert found["goal"] is None and found["facts"]["documents"] == 60 and found["facts"]["batch"] == 32
    assert found["in_batch_alone"]  # a batch of 32 from 60 documents reaches the top of every list
    depth = json.loads(hardneg("--depth", "20", "--goal", "recall", "--json", "--overwrite").stdout)
    assert depth["in_batch_alone"] and "\n  model: in-batch\n" in (tmp_path / "recommended.yaml").read_text()
    with pytest.raises(RecipeError, match=r"split other has no queries; there are dev, test, train"):
        hardneg("--split", "other", "--output", "other.yaml")


def test_a_static_model_gets_the_rate_of_one(tmp_path, tiny_model):
    asked = RecommendRequest("dev", 20, None, {})
    tiny_static(tmp_path / "model")
    found = fitted(asked, ModelSpec(str(tmp_path / "model")))
    assert found.usual == {"learning_rate": 0.01, "weight_decay": 0.0} and found.temperature == 0.05
    assert fitted(asked, ModelSpec("packaged:wordllama")).usual["learning_rate"] == 0.03
    assert fitted(asked, ModelSpec(str(tiny_model), similarity="dot")) == replace(asked, temperature=1.0)


@pytest.mark.slow
def test_trainings_choose(hardneg, model, tmp_path):
    out = hardneg("--depth", "12", "--train", "2", "--train-option", "batch_size=8", "--output", "best.yaml").stdout
    assert "dev queries after 2 steps, one seed: " in out and "in-batch negatives alone 0." in out
    text = (tmp_path / "best.yaml").read_text()
    assert "max_steps: 2" in text and "dev queries after 2 steps, one seed" in text
    ran = CliRunner().invoke(app, ["recipe", "run", "best.yaml", "--output", "made", "--device", "cpu"])
    assert ran.exit_code == 0 and all(name in ran.stdout for name in ("Hard Neg", "In-Batch Neg", "BM25", "as shipped"))
    options = ("--depth", "12", "--train", "2", "--train-option", "batch_size=8", "--goal", "recall")
    out = hardneg(*options, "--output", "depth.yaml").stdout
    assert "recall@100 on" in out and "mrr@10 on" not in out


TREE = {"dataset": "pydocs", "model": {"name": "m"}, "seed": 7}
FACTS = {"splits": {"train": {"queries": 9}, "dev": {"queries": 9}}}


def test_bm25_and_the_top_of_the_lists_stand_beside(tmp_path):
    asked, given = RecommendRequest("dev", 20, None, {"learning_rate": 0.5}), (TREE, FACTS, tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text(answer_of(FOUND).recipe(asked, *given))
    recipe = load_recipe(tmp_path / "r.yaml", None, [])
    scores = recipe.stages["scores"]
    assert {"Hard Neg", "In-Batch Neg", "Top 20", "BM25", "as shipped"} == set(scores.runs)
    assert scores.baselines == ("In-Batch Neg", "Top 20", "as shipped", "BM25")
    top = recipe.stages["top-negatives"]
    assert (top.miner.name, top.miner.options) == ("topk", {"depth": 20}) and top.runs == {"dense": "train-run"}
    assert recipe.stages["top"].options == recipe.stages["model"].options
    chosen = answer_of(FALSE).recipe(replace(asked, bm25=False), *given)  # itself the top of the lists
    assert yaml.safe_load(chosen)["stages"].keys().isdisjoint({"top", "top-negatives", "bm25-index", "bm25-run"})


def test_the_recipe_that_is_written(tmp_path):
    asked = RecommendRequest(
        "dev", 20, {"name": "cross-encoder", "source": "ce"}, {"learning_rate": 0.5}, temperature=1.0
    )
    tree, facts = TREE, FACTS
    found = {**FALSE, "chosen": 2}
    text = answer_of(found).recipe(asked, tree, facts, tmp_path / "r.yaml")
    head = text.partition("title:")[0]
    assert "# There is no split test: it is measured on split dev, by which the negatives were chosen." in head
    assert all(line.startswith("#") and len(line) <= 120 for line in head.splitlines())
    (tmp_path / "r.yaml").write_text(text)
    recipe = load_recipe(tmp_path / "r.yaml", None, [])
    assert recipe.seed == 7 and recipe.stages["scores"].split == "dev" and recipe.stages["start-run"].split == "dev"
    mined, judge = recipe.stages["negatives"], recipe.stages["train-reranked"]
    assert mined.runs == {"dense": "train-run", "scores": "train-reranked"}
    assert mined.miner.options == {"share": 0.95, "depth": 20, "count": 10} and judge.positives and judge.depth == 20
    assert recipe.stages["model"].options.negatives_per_query == 1
    assert recipe.stages["in-batch"].options.negatives_per_query == 0 and recipe.outputs["model"] == "model"
    assert recipe.stages["model"].options.learning_rate == 0.5 and recipe.stages["model"].options.weight_decay == 0.01
    usual = {"learning_rate": 0.03, "weight_decay": 0.0}
    text = answer_of(found).recipe(replace(asked, usual=usual), tree, facts, tmp_path / "r.yaml")
    assert "learning_rate: 0.5" in text and "weight_decay: 0.0" in text and "a static model's rate and decay" in text
    enough = answer_of(FOUND, median_rank=99.0).recipe(asked, tree, facts, tmp_path / "r.yaml")
    assert "outputs:\n  model: in-batch\n" in enough and "# For the top of the lists (MRR@10): in-batch" in enough
    alone = answer_of(found, trials(0.2, 0.1, 0.1))
    assert "outputs:\n  model: in-batch\n" in alone.recipe(asked, tree, facts, tmp_path / "r.yaml")


@pytest.mark.slow
def test_a_reranker_is_a_second_judge_of_judged_positives(hardneg, model, tiny_reranker, tmp_path):
    qrels = tmp_path / "data" / "qrels" / "dev.tsv"
    others = "".join(f"q{i}\td{i + 1}\t1\n" for i in range(36, 46))
    qrels.write_text(qrels.read_text() + others)
    setting = "stages.sweep.analysis.miner-sweep.least_judged=5"
    given = ["--depth", "20", "--reranker", f"cross-encoder:{tiny_reranker}", "--option", "length=32", "--set", setting]
    found = json.loads(hardneg(*given, "--json").stdout)
    assert found["planted"] == {"kind": "judged", "planted": 10, "queries": 10} and found["unused"] == []
    assert {row["by"] for row in found["miners"]} == {"", "reranked"}
    assert all(row["planted"] is not None for row in found["miners"] if row["miner"]["name"] == "topk")


def test_a_plan_is_shown_and_nothing_is_made(hardneg, model, tmp_path):
    told = hardneg("--depth", "20", "--train", "3", "--plan").stdout
    assert "to run: " in told and "model-2" in told  # depths 10 and 20 are tried
    assert told.splitlines()[-1].endswith("--set model.document_length=128")
    assert not (tmp_path / "store").exists() or not list((tmp_path / "store").glob("*/manifest.json"))
    steps = json.loads(hardneg("--depth", "20", "--plan", "--json").stdout)["steps"]
    assert [step["step"] for step in steps] == ["dataset", "index", "run", "sweep"]
    assert "less work" not in hardneg("--plan", "--set", "model.document_length=64").stdout
    assert not list(tmp_path.glob("recommended.*"))


def test_mistakes_are_told_before_any_work(hardneg, tmp_path):
    with pytest.raises(UsageError, match=r"best.txt: is to be a recipe; give a name that ends in .yaml"):
        hardneg("--output", "best.txt")
    with pytest.raises(UsageError, match=r"--goal: 'rcall': no such goal; did you mean 'recall'\?"):
        hardneg("--goal", "rcall")
    with pytest.raises(UsageError, match=r"--depth: must be 10 or more \(got 5\), the least depth that is tried"):
        hardneg("--depth", "5")
    with pytest.raises(UsageError, match="depth: must be 10 or more"):
        hn.recommend("beir:nowhere", depth=5)
    with pytest.raises(RecipeError) as told:
        hardneg("--train-option", "learning_rat=1", "--set", "model.nam=x", "--reranker", "cross-encodr:model")
    assert all(part in str(told.value) for part in ("learning_rat", "model.nam", "'cross-encoder'"))
    assert not (tmp_path / "recommended.yaml").exists()
