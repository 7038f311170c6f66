"""`hardneg recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe, reranker_setting
from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_recipe import ANY, Asked
from hardneg.atomic_write import replace_text
from hardneg.cli import completion, options
from hardneg.cli.adhoc_recipe import Place, PlannedWork, begun, plan_outputs, plugin_options
from hardneg.cli.console import print_table, say, say_json, stdout_console
from hardneg.cli.options import JSON, TUNING, tell_once
from hardneg.cli.outputs import Outputs, Target
from hardneg.errors import UsageError

_MODEL = typer.Option(
    "packaged:all-MiniLM-L6-v2", "--model", help="A folder or a hub id; by default all-MiniLM-L6-v2 as it is packaged."
)
_SPLIT = typer.Option("dev", help="The queries to choose by; never those that are tested on.")
_DEPTH = typer.Option(200, min=10, help="How many documents to search for each query: the deepest that is tried.")
_RERANKER = typer.Option(
    None,
    help="A second model, whose scores filters decide by too: cross-encoder:FOLDER or cross-encoder:HUB-ID.",
    autocompletion=completion.plugins("rerankers"),
)
_STEPS = typer.Option(
    None, "--train", min=1, help="Train so many steps with the best of each depth, and choose by the dev queries."
)
_OUTPUT = options.output(
    "The recipe to write, NAME.yaml; figures of the same name stand beside it.", "recommended.yaml"
)


def recommend(
    dataset: str = options.DATASET,
    model: str = _MODEL,
    reranker: str | None = _RERANKER,
    option: list[str] = options.key_values("An option of the reranker, such as length=256.", TUNING),
    split: str = _SPLIT,
    depth: int = _DEPTH,
    train: int | None = _STEPS,
    train_option: list[str] = options.key_values("One of training, such as learning_rate=1e-4.", TUNING),
    output: Path = _OUTPUT,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    as_json: bool = JSON,
) -> None:
    """Choose the negatives for a collection, show why, and write a recipe that trains with them.

    Positives are planted among the documents of dev queries as if nobody had labelled them. Of the miners, windows and
    filters that let few of them in, the one with the hardest negatives is chosen.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """
    if output.suffix != ".yaml":
        raise UsageError(f"{output}: is to be a recipe; give a name that ends in .yaml")
    second = None if reranker is None else reranker_setting(reranker, plugin_options(option))
    asked = Asked(split, depth, second, plugin_options(train_option, "--train-option"))
    recipe = AdhocRecipe("recommend", dataset, asked.sweep(), model, settings)
    Recommending(asked, recipe, train, output).run(Place(store, device), overwrite, as_json)


@dataclass(frozen=True)
class Recommending:
    """A recommendation at work; steps: of the trainings to choose by, None where none is to be."""

    asked: Asked
    recipe: AdhocRecipe
    steps: int | None
    output: Path

    def run(self, place: Place, overwrite: bool, as_json: bool) -> None:
        """Compares, chooses, writes the recipe and the figures, and tells of them."""
        from hardneg.analysis.miner_sweep import MinerSweep
        from hardneg.api.recommending import fitted, sweep_in
        from hardneg.fields import DATASET

        replace(self.recipe, stages=self.asked.trials(ANY, self.steps or 1)).check(tell_once)  # before any work
        figures = [self.output.with_suffix(form) for form in (".png", ".svg")]
        with begun(self.recipe, place, [Target(path) for path in (self.output, *figures)], overwrite) as work:
            outcome = work.make()
            found, facts = sweep_in(outcome), outcome.artifacts[DATASET].facts
            asked = fitted(self.asked, work.plan.recipe.model)
            tried, outputs = (None, work.outputs) if self.steps is None else self._tried(work, asked, found)
            answer = Recommendation(found, tried, self.steps)
            with outputs.laid_out():
                replace_text(self.output, answer.recipe(asked, work.plan.recipe.tree, facts, self.output))
                MinerSweep.model_construct().draw(found, figures)
        _tell(answer, as_json, self.output)

    def _tried(self, work: PlannedWork, asked: Asked, found: Mapping[str, Any]) -> tuple[dict[str, float], Outputs]:
        """What each training came to on the dev queries, by its stage; and the outputs, which are made of these too."""
        from hardneg.api.recommending import trial_scores

        plan = replace(self.recipe, stages=asked.trials(found, self.steps or 0)).plan(tell_once)
        given = work.outputs
        outputs = plan_outputs(given.command, plan, work.place.store, given.targets, given.overwrite)
        with outputs.begun():
            return trial_scores(replace(work, plan=plan, outputs=outputs).make()), outputs


def _tell(answer: Recommendation, as_json: bool, output: Path) -> None:
    """Prints what was chosen, and why."""
    from hardneg.analysis.miner_sweep import MinerSweep

    if as_json:
        return say_json({"recipe": str(output), **answer.to_dict()})
    sweep, console = MinerSweep.model_construct(), stdout_console()
    print_table(console, sweep.tables(answer.found)[0])
    console.print(sweep.explain(answer.found), style="dim", soft_wrap=not console.is_terminal)
    if answer.trials is not None:
        say(" ".join(answer.tried_in_words()))
        say(f"The rule: {answer.rule()}")
    say(answer.evidence())
    say(f"{output}: hardneg recipe run {output}")
