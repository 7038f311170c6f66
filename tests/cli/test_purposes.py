"""A run says what each step is for, and a demo what to do next."""

from hardneg.recipes import find_recipe, load_recipe, make_plan
from hardneg.stages.base import StageSpec
from hardneg.stages.search import Search


def test_every_step_of_the_shipped_recipes_has_a_purpose():
    for name in ("star-passage", "adore-star-passage", "ance-passage", "rocketqa-passage", "cort-electra-passage"):
        steps = make_plan(load_recipe(find_recipe(name)), []).steps.values()
        assert [step.name for step in steps if not step.spec.why()] == []


def test_a_search_is_for_what_its_split_is_for_and_a_verb_that_says_nothing_for_nothing():
    searches = [Search(stage="search", index="i", split=split).why() for split in ("train", "of-mine")]
    assert searches == ["rank the passages for the training queries, to mine from", "rank the passages for the queries"]
    assert StageSpec().why() == ""
