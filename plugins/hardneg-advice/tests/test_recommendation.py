"""What is recommended, by trainings or by the rule, and in which words."""

import pytest
from hardneg_advice.rule import Trials
from hardneg_advice.trials import RecommendRequest
from small_sweep import FALSE, FOUND, ROWS, answer_of, situation, trials, with_false

from hardneg.records.errors import UsageError


def test_the_best_training_at_its_best_rate_is_the_answer():
    answer = answer_of(FOUND, trials(0.2, 0.3, 0.4))
    assert answer.answer().startswith(
        "Train with topk, 10 a query: learning rate 0.03, 5 steps, loss infonce. mrr@10 0.40"
    )
    assert answer.answer().endswith("on 60 queries of dev, as shipped 0.2000.")
    assert answer.miner == ROWS[0]["miner"] and not answer.alone
    alone = answer_of(FOUND, trials(0.2, 0.4, 0.3))
    assert alone.alone and alone.answer().startswith("Train with in-batch negatives alone: learning rate 0.03")
    assert answer_of(FOUND, trials(0.2, 0.4, 0.4)).alone  # of equal ones the first
    assert answer_of(FALSE, trials(0.2, 0.3, 0.3, 0.4)).miner == ROWS[1]["miner"]  # what the rule chooses is tried too
    told = answer.to_dict()
    assert told["train"] and told["trials"]["first"]["by_rate"] == pytest.approx({"0.01": 0.3, "0.03": 0.4})
    assert told["without_training"]["top"]["alone"] is False


def test_the_model_as_shipped_may_be_the_answer():
    answer = answer_of(FOUND, trials(0.45, 0.3, 0.4))
    assert answer.answer().startswith("Train nothing: as shipped the model has mrr@10 0.4500")
    assert answer.answer().endswith("no training more; best of these: topk, 10 a query.")
    assert answer.to_dict()["train"] is False
    assert not answer_of(FOUND, trials(0.4, 0.3, 0.4)).to_dict()["train"]  # nothing is gained


def test_bm25_stands_beside_and_is_no_training():
    tried = trials(0.2, 0.3, 0.4, bm25=0.6)
    assert tried.best == "first" and tried.as_good == ["first"]
    told = " ".join(answer_of(FOUND, tried).reasons())
    assert "BM25, without any training, has 0.6000: more than all of these (p < 0.001)." in told
    assert [row[4] for row in answer_of(FOUND, tried).section().tables[0].rows] == [
        "worse",
        "worse",
        "chosen",
        "no training",
    ]
    assert "BM25" not in " ".join(answer_of(FOUND, trials(0.2, 0.3, 0.4, bm25=0.3)).reasons())


def test_what_is_not_told_apart_will_do_and_doubts_are_named():
    told = " ".join(answer_of(FOUND, trials(0.2, 0.4, 0.4)).reasons())
    assert "Not told apart from the highest (paired tests over the queries, level 0.01, Holm" in told
    assert "in-batch negatives alone; topk, 10 a query. Any of these will do." in told
    assert "topk, 10 a query: its rate, 0.03, is at the end of those tried; another may do better." in told
    assert "One seed, the best of 4 trainings by the queries that chose it" in told and "Too few" not in told
    few = answer_of(FOUND, trials(0.2, 0.4, 0.4), queries=49)
    assert few.reasons()[0] == "Too few queries to choose by: 49, less than 50."
    apart = " ".join(answer_of(FOUND, trials(0.2, 0.3, 0.4)).reasons())
    assert "Better than all others (paired tests" in apart and "over all pairs): topk, 10 a query." in apart
    assert "Without a training it would have said: For the top of the lists (MRR@10): topk, 10 a query" in apart


def test_intervals_and_p_of_trainings():
    even = {"as shipped": [0.0] * 4, "in-batch at 0.1": [0.5, 0.6, 0.5, 0.6], "first at 0.1": [0.51, 0.59, 0.51, 0.59]}
    scores = {name: dict(zip("abcd", values, strict=True)) for name, values in even.items()}
    close = Trials(scores, ["in-batch", "first"], [0.1], 5)
    assert close.ends("in-batch") == "[0.458, 0.642]"  # .55 ± 3.182 × .05774 / 2, by Student's t
    assert close.to_dict()["first"]["p_against_best"] == 1.0  # differences of .01 with signs that even out
    # As shipped it is .55 away: t is 19, but four queries have 16 patterns of signs, so p is 1/8 at best.
    assert close.to_dict()["as shipped"]["not_told_apart"]


def test_the_first_documents_where_few_of_them_are_above_the_positive_and_batches_do_not_reach():
    answer = answer_of(FOUND)
    facts, rule, guess = answer.reasons()
    assert facts == (
        "3,200 documents, 32 queries a step; best positives of 90 queries: median rank 4 [2, 12], 60.0% in the first "
        "10; of the first 10, 40.0% score above it; 10.0% of them are planted positives."
    )
    assert rule.startswith(
        "For the top of the lists (MRR@10): topk, 10 a query, one of them in a step. 40.0% of the first 10 score above "
        "the best positive, so it is these that it is mistaken for, and batches seldom have them: the nearest in-batch "
        "negative of 32 queries stands at about rank 100. For recall (R@100): in-batch negatives alone. "
    )
    assert guess.startswith("This is a guess") and answer.answer() == "A guess without a training: topk, 10 a query."


def test_in_batch_is_enough_where_most_are_above_or_the_positive_is_first():
    assert not answer_of(FOUND, above=0.5).alone
    low = answer_of(FOUND, above=0.51)
    assert low.alone and "51.0% of the first 10 score above the best positive, so these are but few" in low.reasons()[1]
    assert [line[0] for line in low.section().tables[0].rows if line[-1] == "chosen"] == []
    first = answer_of(FOUND, within={"1": 0.51, "10": 0.9, "100": 1.0})
    assert first.alone and "little to gain, so train little, or not at all" in first.reasons()[1]
    assert not answer_of(FOUND, within={"1": 0.5, "10": 0.9, "100": 1.0}).alone


@pytest.mark.parametrize(("above", "known"), [(0.44, True), (0.45, False), (0.6, False), (0.61, True)])
def test_the_rule_knows_where_it_does_not_know(above, known):
    assert any(line.startswith("Not known which") for line in answer_of(FOUND, above=above).reasons()) == (not known)


def test_few_queries_are_too_few():
    assert "Too few queries to choose by: 49, less than 50." in answer_of(FOUND, queries=49).reasons()
    # Of 9 ranks P(two or more below the lowest two) is 1 - 2 × 10 / 512: the second and the eighth; of five none.
    assert "median rank 4 [2, 8]" in answer_of(FOUND, ranks=[*range(1, 10)]).reasons()[0]
    assert "median rank 4, " in answer_of(FOUND, ranks=[1, 2, 4, 5, 6]).reasons()[0]


def test_in_batch_is_enough_where_batches_reach_the_top_of_the_lists():
    assert not situation(documents=3201, batch=320).advice("top").alone
    near = situation(documents=3200, batch=320).advice("top")  # the nearest of 320 stands at rank 10
    assert near.alone and near.reason.startswith(
        "Of 3,200 documents batches already have what the first 10 would bring"
    )


def test_where_most_of_the_top_is_false_the_sweep_chooses():
    assert answer_of(with_false(0.5)).miner == answer_of(with_false(None)).miner == ROWS[0]["miner"]
    answer = answer_of(FALSE)
    assert answer.miner == ROWS[1]["miner"] and not answer.alone
    assert "But 60.0% of the first 10 are false: topk, 20 a query lets fewer in." in answer.reasons()[1]


def test_the_goal_is_named_or_both_are_answered():
    recall, top = answer_of(FOUND, goal="recall"), answer_of(FOUND, goal="top")
    assert "For recall" not in top.reasons()[1] and "For the top" not in recall.reasons()[1]
    assert recall.alone and not top.alone and not answer_of(FOUND).alone  # the recipe of both is the one for the top
    told = recall.to_dict()
    assert told["goal"] == "recall" and told["in_batch_alone"] and told["trials"] is None
    assert told["without_training"]["top"]["reason"] == top.situation.advice("top").reason
    assert (told["facts"]["reach"], told["facts"]["false"], told["facts"]["median_rank"]) == (100.0, 0.1, 4.0)
    metrics = [RecommendRequest("dev", 20, None, {}, goal=goal).metric for goal in (None, "top", "recall")]
    assert metrics == ["mrr@10", "mrr@10", "recall@100"]
    with pytest.raises(UsageError, match=r"'tops': no such goal; did you mean 'top'\?; there are top, recall"):
        RecommendRequest("dev", 20, None, {}, goal="tops")
