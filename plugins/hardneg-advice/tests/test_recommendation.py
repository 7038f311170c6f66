"""What is recommended, by trainings or by the rule, in which words, and the recipe that trains so."""

from dataclasses import replace

import pytest
import yaml
from hardneg_advice.recommend import RecommendedNegatives, Trials
from hardneg_advice.rule import advice, compare
from tiny import tiny_static

from hardneg.encoders.spec import ModelSpec
from hardneg.recipes import load_recipe
from hardneg.records import UsageError

RANKS = {"queries": 90, "listed": 20, "depth": 10, "median_rank": 4.0, "within": {"1": 0.3, "10": 0.6, "100": 1.0}}
RANKS |= {"above": 0.4, "ranks": [1] * 27 + [2] * 9 + [4] * 18 + [12] * 36}
FACTS = {"documents": 3200, "splits": {"train": {"queries": 9}, "dev": {"queries": 9}}}
TRIALS = Trials("dev", 5, {}, (0.01, 0.03), bm25=True)


def answer_of(rows=None, trials=TRIALS, **ranks):
    """3,200 documents in batches of 32: a batch's nearest one stands at rank 100 on average."""
    tree = {"dataset": "pydocs", "model": {"name": "m"}, "seed": 7}
    return RecommendedNegatives({**RANKS, **ranks}, rows, FACTS, trials, tree, [])


def rows(shipped, in_batch, first, bm25=None, queries=60):
    """What trainings come to: scores of each around its mean at .03, a tenth less at .01."""
    added = [0.01 * (query % 11 - 5) for query in range(queries)]
    added = [value - sum(added) / queries for value in added]

    def scores(mean, turn):
        return {str(query): mean + added[query - turn] for query in range(queries)}

    measured = {"as shipped": scores(shipped, 3), **({} if bm25 is None else {"BM25": scores(bm25, 4)})}
    for turn, (name, mean) in enumerate({"in-batch": in_batch, "first": first}.items()):
        measured |= {f"{name} at 0.03": scores(mean, turn), f"{name} at 0.01": scores(mean - 0.1, turn)}
    return compare(measured, (0.01, 0.03))


def recipe_of(answer, folder):
    (folder / "r.yaml").write_text(answer.recipe(folder / "r.yaml"))
    return load_recipe(folder / "r.yaml", None, [])


def test_the_best_training_at_its_best_rate_is_the_answer():
    answer = answer_of(rows(0.2, 0.3, 0.4))
    start = "Train with topk, 10 per query: learning rate 0.03, 5 steps, loss infonce. mrr@10 0.4000 ["
    assert answer.answer().startswith(start) and answer.answer().endswith("on 90 queries, against 0.2000 as shipped.")
    assert answer.arm == "first" and answer_of(rows(0.2, 0.4, 0.3)).arm == "in-batch"
    assert answer_of(rows(0.2, 0.4, 0.4)).arm == "in-batch"  # of equal ones the first
    told = answer.to_dict()
    assert told["train"] and told["trials"]["first"]["by_rate"] == pytest.approx({"0.01": 0.3, "0.03": 0.4})
    assert told["without_training"]["arm"] == "first" and told["documents"] == 3200


def test_the_model_as_shipped_may_be_the_answer():
    answer = answer_of(rows(0.45, 0.3, 0.4))
    assert answer.answer().startswith("Do not train: as shipped, the model has mrr@10 0.4500")
    assert answer.answer().endswith("no run beats it; best of these: topk, 10 per query.")
    assert answer.to_dict()["train"] is False
    assert not answer_of(rows(0.4, 0.3, 0.4)).to_dict()["train"]  # nothing is gained


def test_intervals_and_p_of_trainings():
    even = {"as shipped": [0.0] * 4, "in-batch at 0.1": [0.5, 0.6, 0.5, 0.6], "first at 0.1": [0.51, 0.59, 0.51, 0.59]}
    close = compare({name: dict(zip("abcd", values, strict=True)) for name, values in even.items()}, [0.1])
    assert close["in-batch"]["interval"] == pytest.approx([0.458, 0.642], abs=5e-4)  # .55 ± 3.182 × .05774 / 2, by t
    assert close["first"]["p"] == 1.0  # differences of .01 with signs that even out
    # As shipped it is .55 away: t is 19, but four queries have 16 patterns of signs, so p is 1/8 at best.
    assert close["as shipped"]["as_good"]


def test_the_rule_takes_the_first_documents_where_few_are_above_the_positive_and_batches_do_not_reach():
    facts, rule, guess, recall = answer_of().reasons()
    assert facts == (
        "3,200 documents, 32 queries per step; best positives of 90 queries: median rank 4 [2, 12], 60.0% in the first "
        "10; of the first 10, 40.0% score above it."
    )
    assert rule == (
        "By the rule: topk, 10 per query. 40.0% of the first 10 score above the best positive, so these are what the "
        "model confuses with it, and batches seldom contain them: with 32 queries per step, the nearest in-batch "
        "negative is at about rank 100."
    )
    assert guess.startswith("This is a guess") and recall.startswith("For recall (R@100), train with in-batch")
    assert answer_of().answer() == "A guess without training runs: topk, 10 per query."


@pytest.mark.parametrize(
    ("changed", "documents", "arm"),
    [
        ({"above": 0.5}, 3200, "first"),
        ({"above": 0.51}, 3200, "in-batch"),
        ({"above": None}, 3200, "in-batch"),
        ({"within": {"1": 0.5}}, 3200, "first"),
        ({"within": {"1": 0.51}}, 3200, "in-batch"),
        ({}, 321, "first"),  # the nearest of 32 stands at rank 10.03
        ({}, 320, "in-batch"),
    ],
)
def test_the_rule_at_its_bounds(changed, documents, arm):
    assert advice({**RANKS, **changed}, documents, 32)[0] == arm


def test_each_arm_is_trained_at_each_rate_beside_the_model_as_shipped():
    stages = TRIALS.stages()
    arms = [f"{arm} at {rate}" for arm in ("in-batch", "first") for rate in (0.01, 0.03)]
    assert [*stages["trials"]["runs"]] == ["as shipped", "BM25", *arms]
    alone, first = stages["in-batch at 0.01"], stages["first at 0.03"]
    assert alone["options"] == {"negatives_per_query": 0, "learning_rate": 0.01, "max_steps": 5}
    assert first["negatives"] == "negatives" and first["options"]["learning_rate"] == 0.03
    assert alone["loss"] == first["loss"] == {"name": "infonce", "temperature": 0.05}
    assert [*replace(TRIALS, steps=0).stages()] == ["index", "run", "ranks"]


def test_the_recipe_trains_as_the_best_trial_did(tmp_path):
    answer = answer_of(rows(0.2, 0.3, 0.4))
    recipe, stages = recipe_of(answer, tmp_path), TRIALS.stages()
    assert recipe.outputs["model"] == "model"
    written = yaml.safe_load((tmp_path / "r.yaml").read_text())["stages"]
    for name, tried in (("model", "first at 0.03"), ("in-batch", "in-batch at 0.03"), ("negatives", "negatives")):
        assert {key: value for key, value in written[name].items() if key != "system"} == stages[tried]
    scores = recipe.stages["scores"]
    assert {"Hard Neg", "In-Batch Neg", "BM25", "as shipped"} == set(scores.runs)
    assert scores.baselines == ("In-Batch Neg", "as shipped", "BM25")
    assert "# Train with topk, 10 per query: learning rate 0.03, 5 steps" in (tmp_path / "r.yaml").read_text()
    assert recipe_of(answer_of(rows(0.2, 0.4, 0.3)), tmp_path).outputs["model"] == "in-batch"


def test_a_guess_is_a_recipe_too(tmp_path):
    options = {"learning_rate": 0.5, "max_steps": 9}
    trials = Trials("dev", 0, options, [0.5], {"weight_decay": 0.0}, temperature=1.0)
    recipe = recipe_of(answer_of(trials=trials), tmp_path)
    head = (tmp_path / "r.yaml").read_text().partition("title:")[0]
    assert "# There is no test split, so the recipe is tested on split dev, on which it was chosen." in head
    assert "# A guess without training runs: topk" in head
    assert all(line.startswith("#") and len(line) <= 120 for line in head.replace(str(tmp_path), "").splitlines())
    assert recipe.seed == 7 and recipe.stages["scores"].split == "dev" and recipe.stages["start-run"].split == "dev"
    assert recipe.stages.keys().isdisjoint({"bm25-index", "bm25-run"})
    trained = recipe.stages["model"].options
    assert (trained.learning_rate, trained.weight_decay, trained.max_steps) == (0.5, 0.0, 9)
    alone = answer_of(above=0.9)
    assert recipe_of(alone, tmp_path).outputs["model"] == "in-batch"
    with pytest.raises(UsageError, match=r"r.yaml: already exists"):
        alone.write(tmp_path / "r.yaml")


def test_rates_and_temperature_are_those_of_the_model(tmp_path, tiny_model):
    asked = Trials("dev", 5, {})
    tiny_static(tmp_path / "model")
    static = asked.fitted(ModelSpec(str(tmp_path / "model")))
    assert static.rates == (0.01, 0.03, 0.1) and static.usual == {"weight_decay": 0.0} and static.temperature == 0.05
    other = asked.fitted(ModelSpec(str(tiny_model), similarity="dot"))
    assert other.rates == (1e-5, 3e-5, 1e-4) and other.temperature == 1.0 and not other.usual
    assert replace(asked, options={"learning_rate": 0.5}).fitted(ModelSpec(str(tiny_model))).rates == [0.5]
