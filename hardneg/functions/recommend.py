"""`recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.api.arguments import TRAIN_OPTION, Arg, Dataset, Model, Setting, Where, spelled_out
from hardneg.api.recommended_recipe import ALONE, FIRST, GOALS, STEPS, Goal, RecommendRequest
from hardneg.records.depths import TOP_DEPTH
from hardneg.records.named_plugins import TOPK

if TYPE_CHECKING:
    from hardneg.api.recommending import RecommendedNegatives

_TUNING = "Tuning"
_GOAL = "What is to be good: top (the first documents) or recall. Both are answered, the recipe is for the top."
_RERANKER = "A second model, whose scores filters also use: cross-encoder:FOLDER or cross-encoder:HUB-ID."
_SPLIT = Arg("The queries to choose on; never the test queries.", default="dev")
_OPTION = replace(TRAIN_OPTION, help="A training option, such as learning_rate=1e-4.", panel=_TUNING)
_STEPS = Arg("Steps of each training; 0 trains nothing, and the answer is a guess.", least=0)


@spelled_out
def recommend(
    dataset: Dataset,
    model: Model = "packaged:all-MiniLM-L6-v2",
    *,
    goal: Annotated[Goal | None, Arg(_GOAL, cli=str, words=GOALS)] = None,
    reranker: Annotated[Setting | None, Arg(_RERANKER, plugin="rerankers", panel=_TUNING)] = None,
    split: Annotated[str | None, _SPLIT] = None,
    depth: Annotated[int, Arg("How many documents to retrieve for each query: the largest depth tried.")] = TOP_DEPTH,
    train: Annotated[int, _STEPS] = STEPS,
    train_options: Annotated[Mapping[str, Any], _OPTION] = {},
    **where: Unpack[Where],
) -> "RecommendedNegatives":
    """Choose how to train for a collection by short trainings, show why, and write a recipe that trains so.

    In-batch negatives alone, the first documents of the model's lists, and what a rule chooses by its ranks of the
    positives are each trained at three learning rates, and compared on the dev queries with the model as shipped and
    with BM25. Some positives are hidden, to count how many each miner wrongly takes.

    Raises:
        UsageError: the depth is too small, there is no such goal, or the split is the one that tests are on.
        RecipeError: the reranker or training has no such option, or the split has no queries.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """
    from hardneg.api.argument_values import mapping_of, plugin_setting, whole_number
    from hardneg.api.dataset_argument import split_of
    from hardneg.api.recommending import Recommending
    from hardneg.api.workplace import Workplace

    workplace, options = Workplace.of(where, recommend), mapping_of("train_options", train_options)
    steps, chosen = whole_number("train", train), split_of(dataset, split, "dev")
    second = None if reranker is None else plugin_setting("reranker", reranker)
    request = RecommendRequest(chosen, whole_number("depth", depth), second, options, goal=goal)
    recipe = workplace.recipe(recommend, dataset, model, request.sweep())
    first = {"miner": {"name": TOPK, "depth": min(request.depths)}, "by": ""}
    steps = steps and options.get("max_steps", steps)
    ahead = replace(recipe, stages=request.trials({ALONE: None, FIRST: first}, steps or 1))
    ahead.check(lambda note: None)  # its plan tells the notes
    plan = workplace.begin(recipe, ahead=ahead if steps else recipe)
    return Recommending(request, recipe, steps).chosen(plan, workplace)
