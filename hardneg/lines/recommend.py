"""`recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hardneg.api.argument_values import mapping_of, plugin_setting, whole_number
from hardneg.api.recommended_recipe import ALONE, FIRST, GOALS, STEPS, RecommendRequest
from hardneg.lines.base import Argument, Arguments, Job, Line
from hardneg.lines.shared_arguments import DATASET, MODEL, TRAIN_OPTIONS
from hardneg.records.depths import TOP_DEPTH
from hardneg.records.named_plugins import TOPK

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace

_TUNING = "Tuning"


class RecommendLine(Line):
    """Choose how to train for a collection by short trainings, show why, and write a recipe that trains so.

    In-batch negatives alone, the first documents of the model's lists, and what a rule chooses by its ranks of the
    positives are each trained at three learning rates, and compared on the dev queries with the model as shipped and
    with BM25. Some positives are hidden, to count how many each miner wrongly takes.

    Raises:
        UsageError: the depth is too small, there is no such goal, or the split is the one that tests are on.
        RecipeError: the reranker or training has no such option, or the split has no queries.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """

    name = "recommend"
    returns = "RecommendedNegatives"
    writes = "recipe"
    shows = ("settings", "store", "device", "plan")
    arguments = (
        DATASET,
        replace(MODEL, default="packaged:all-MiniLM-L6-v2"),
        Argument(
            "goal",
            "What is to be good: top (the first documents) or recall. Both are answered, the recipe is for the top.",
            "Goal | None",
            None,
            words=GOALS,
        ),
        Argument(
            "reranker",
            "A second model, whose scores filters also use: cross-encoder:FOLDER or cross-encoder:HUB-ID.",
            "str | Mapping[str, Any] | None",
            None,
            check=partial(plugin_setting, "reranker"),
            plugins="rerankers",
            panel=_TUNING,
        ),
        Argument("split", "The queries to choose on; never the test queries.", default="dev", of_dataset=True),
        Argument(
            "depth",
            "How many documents to retrieve for each query: the largest depth tried.",
            "int",
            TOP_DEPTH,
            int,
            partial(whole_number, "depth"),
        ),
        Argument(
            "train",
            "Steps of each training; 0 trains nothing, and the answer is a guess.",
            "int",
            STEPS,
            int,
            partial(whole_number, "train"),
            least=0,
        ),
        replace(
            TRAIN_OPTIONS,
            name="train_options",
            help="A training option, such as learning_rate=1e-4.",
            check=partial(mapping_of, "train_options"),
            panel=_TUNING,
        ),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """The stages that compare miners; whether what the rule chooses is trained too is known after these."""
        from hardneg.api.recommending import Recommending

        request = RecommendRequest(self.split(args), args.depth, args.reranker, args.train_options, goal=args.goal)
        recipe = self.recipe(args, workplace, request.sweep())
        first = {"miner": {"name": TOPK, "depth": min(request.depths)}, "by": ""}
        steps = args.train and args.train_options.get("max_steps", args.train)
        ahead = replace(recipe, stages=request.trials({ALONE: None, FIRST: first}, steps or 1))
        ahead.check(lambda note: None)  # its plan tells the notes
        return Job(recipe, Recommending(request, recipe, steps).chosen, ahead=ahead if steps else recipe)
