"""What is recommended, by the rule or by trainings, and in which words."""

import pytest
from api.small_sweep import FALSE, FOUND, ROWS, answer_of, situation, trials, with_false

from hardneg.api.recommended_recipe import RecommendRequest
from hardneg.api.recommended_rule import RULE as SAID
from hardneg.api.recommended_trials import Trials
from hardneg.records.errors import UsageError


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
