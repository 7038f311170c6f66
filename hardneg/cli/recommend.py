"""`hardneg recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.argument_values import plugin_setting
from hardneg.api.recommended_recipe import RecommendRequest
from hardneg.cli import completion, options
from hardneg.cli.console import print_table, say, say_json, stdout_console
from hardneg.cli.options import JSON, TUNING, tell_once
from hardneg.cli.planned_work import PlannedWork, RunOptions, begun, plan_outputs, plugin_options
from hardneg.records.depths import TOP_DEPTH
from hardneg.records.errors import UsageError
from hardneg.store.atomic_write import replace_text
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.api.recommendation import Recommendation
    from hardneg.api.recommended_trials import Trials

_MODEL = typer.Option(
    "packaged:all-MiniLM-L6-v2", "--model", help="A folder or a hub id; by default all-MiniLM-L6-v2 as it is packaged."
)
_SPLIT = typer.Option("dev", help="The queries to choose on; never the test queries.")
_DEPTH = typer.Option(TOP_DEPTH, help="How many documents to retrieve for each query: the largest depth tried.")
_GOAL = typer.Option(
    None, help="What is to be good: top (the first documents) or recall. Both are answered, the recipe is for the top."
)
_RERANKER = typer.Option(
    None,
    help="A second model, whose scores filters also use: cross-encoder:FOLDER or cross-encoder:HUB-ID.",
    autocompletion=completion.plugins("rerankers"),
)
_STEPS = typer.Option(
    None, "--train", min=1, help="Train this many steps with the best of each depth, and choose on the dev queries."
)
_PLAN = typer.Option(False, "--plan", help="Show the steps and an estimate, and do nothing.")
_OUTPUT = options.output("The recipe to write, NAME.yaml; figures of the same name go beside it.", "recommended.yaml")


def recommend(
    dataset: str = options.DATASET,
    model: str = _MODEL,
    goal: str | None = _GOAL,
    reranker: str | None = _RERANKER,
    option: list[str] = options.key_values("An option of the reranker, such as length=256.", TUNING),
    split: str = _SPLIT,
    depth: int = _DEPTH,
    train: int | None = _STEPS,
    train_option: list[str] = options.key_values("A training option, such as learning_rate=1e-4.", TUNING),
    plan: bool = _PLAN,
    output: Path = _OUTPUT,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    as_json: bool = JSON,
) -> None:
    """Choose the negatives for a collection, show why, and write a recipe that trains with them.

    The model's ranks of the positives of dev queries decide whether the first documents of its lists are taken, or
    in-batch negatives alone are enough. Some positives are hidden, to count how many each miner wrongly takes.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """
    if output.suffix != ".yaml":
        raise UsageError(f"{output}: is to be a recipe; give a name that ends in .yaml")
    second = None if reranker is None else {**plugin_setting("reranker", reranker), **plugin_options(option)}
    request = RecommendRequest(split, depth, second, plugin_options(train_option, "--train-option"), goal=goal)
    recipe = AdhocRecipe("recommend", dataset, request.sweep(), model, settings)
    if plan:
        return _show_plan(replace(recipe, stages=request.before(train)), store, as_json)
    Recommending(request, recipe, train, output).run(RunOptions(store, device), overwrite, as_json)


def _show_plan(recipe: AdhocRecipe, store: Path | None, as_json: bool) -> None:
    """Prints the steps with an estimate, and how to make them shorter."""
    from hardneg.cli.recipe_plan import show_plan

    show_plan(recipe.plan(tell_once), options.open_store(store), as_json)
    if not as_json and not any(setting.startswith("model.document_length=") for setting in recipe.settings):
        say("less work, by reading less of each document: --set model.document_length=128")


@dataclass(frozen=True)
class Recommending:
    """A recommendation at work; steps: of the trainings to choose by, None where none is to be."""

    request: RecommendRequest
    recipe: AdhocRecipe
    steps: int | None
    output: Path

    def run(self, run_options: RunOptions, overwrite: bool, as_json: bool) -> None:
        """Compares, chooses, writes the recipe and the figures, and tells of them."""
        from hardneg.analysis.miner_sweep import MinerSweep
        from hardneg.api.recommendation import Recommendation
        from hardneg.api.recommending import fitted, situation_in, sweep_in
        from hardneg.records.layout import DATASET

        replace(self.recipe, stages=self.request.before(self.steps or 1)).check(tell_once)  # before any work
        figures = [self.output.with_suffix(form) for form in (".png", ".svg")]
        with begun(self.recipe, run_options, [Target(path) for path in (self.output, *figures)], overwrite) as work:
            outcome = work.make()
            sweep, facts = sweep_in(outcome), outcome.artifacts[DATASET].facts
            request = fitted(self.request, work.plan.recipe.model)
            trials, outputs = None, work.outputs
            if self.steps is not None:
                trials, outputs = self._trials(work, request.trials(sweep, self.steps), self.steps)
            answer = Recommendation(sweep, trials, situation_in(outcome, request), request.goal)
            with outputs.laid_out():
                replace_text(self.output, answer.recipe(request, work.plan.recipe.tree, facts, self.output))
                MinerSweep.model_construct().draw(answer.sweep(), figures)
        _tell(answer, as_json, self.output)

    def _trials(self, work: PlannedWork, stages: Mapping[str, Any], steps: int) -> "tuple[Trials, Outputs]":
        """The scores of each training on the dev queries; and the outputs, which depend on these too."""
        from hardneg.api.recommending import trials_in

        plan = replace(self.recipe, stages=stages).plan(tell_once)
        before = work.outputs
        outputs = plan_outputs(before.command, plan, work.workplace.store, before.targets, before.overwrite)
        with outputs.begun():
            return trials_in(replace(work, plan=plan, outputs=outputs).make(), steps), outputs


def _tell(answer: "Recommendation", as_json: bool, output: Path) -> None:
    """Prints what was chosen, and why."""
    from hardneg.analysis.miner_sweep import MinerSweep

    if as_json:
        return say_json({"recipe": str(output), **answer.to_dict()})
    console = stdout_console()
    sweep, *trials = answer.tables()
    print_table(console, sweep)
    explained = MinerSweep.model_construct().explain(answer.sweep())
    console.print(explained, style="dim", soft_wrap=not console.is_terminal)
    for table in trials:
        print_table(console, table)
        say(" ".join(answer.tried_in_words()))
    for line in [*answer.reasons(), answer.evidence()]:
        say(line)
    say(f"{output}: hardneg recipe run {output}")
