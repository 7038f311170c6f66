"""`recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hardneg.api.argument_values import at_least_one, mapping_of, plugin_setting, whole_number
from hardneg.api.recommended_recipe import GOALS, RecommendRequest
from hardneg.lines.base import Argument, Arguments, Job, Line
from hardneg.lines.shared_arguments import DATASET, MODEL, TRAIN_OPTIONS
from hardneg.records.depths import TOP_DEPTH

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace

_TUNING = "Tuning"


class RecommendLine(Line):
    """Choose the negatives for a collection, show why, and write a recipe that trains with them.

    The model's ranks of the positives of dev queries decide whether the first documents of its lists are taken, or
    in-batch negatives alone are enough. Some positives are hidden, to count how many each miner wrongly takes.

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
            "Train this many steps with the best of each depth and with the first documents, and choose on dev.",
            "int | None",
            None,
            int,
            partial(at_least_one, "train"),
            least=1,
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
        """The stages that compare miners; those that train with the best of each depth are known after these."""
        from hardneg.api.recommending import Recommending

        request = RecommendRequest(self.split(args), args.depth, args.reranker, args.train_options, goal=args.goal)
        recipe = self.recipe(args, workplace, request.sweep())
        replace(recipe, stages=request.before(args.train or 1)).check(lambda note: None)  # its plan tells the notes
        work = Recommending(request, recipe, args.train)
        return Job(recipe, work.chosen, ahead=replace(recipe, stages=request.before(args.train)))
