"""What a step is for, in a few plain words, and what to do after a demo."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardneg.recipe.load import Recipe
    from hardneg.recipe.plan import Step

_PURPOSES = {
    "dataset": "read the passages, queries and labels",
    "encode": "turn every passage into a vector",
    "index": "build an index to search in",
    "mine": "take passages that rank high and are not labelled: the hard negatives",
    "label": "make labels out of a reranker's scores",
    "train": "teach the model to tell the labelled passages from the hard negatives",
    "train-queries": "teach the query side alone, against the passages as they are in the index",
    "train-refreshed": "teach the model, with hard negatives that are mined again on the way",
    "train-reranker": "teach a network that reads a query and a passage together",
    "train-reader": "teach a network to find the answer in a passage",
    "rerank": "have a reranker score what was found",
    "read": "find the answer in what was found",
    "fuse": "make one ranking out of several",
    "evaluate": "measure every system on the same queries, and test the differences",
    "analyze": "look into what changed",
    "report": "put tables and figures on a page",
}
_SEARCHES = {
    "train": "rank the passages for the training queries, to mine from",
    "dev": "rank the passages for the dev queries, to choose the best weights by",
    "test": "rank the passages for the test queries, to measure",
}


def purpose(step: "Step") -> str:
    """What the step does and why; nothing for a verb that is not hardneg's own."""
    if step.verb == "search":
        return _SEARCHES.get(str(getattr(step.spec, "split", "")), "rank the passages for the queries")
    return _PURPOSES.get(step.verb, "")


def next_commands(recipe: "Recipe", folder: Path) -> Iterator[tuple[str, str]]:
    """After a shipped recipe's demo the most useful next things: what each is, and its command."""
    from hardneg.recipe.inheritance import read_whole_tree
    from hardneg.recipe.yaml_load import shipped_recipes

    if recipe.preset != "demo" or shipped_recipes().get(recipe.name) != recipe.source:
        return
    run = f"{_program()} recipe run {recipe.name}"
    preset = " --preset small" if "small" in read_whole_tree(recipe.source).get("presets", {}) else ""
    yield "the report", f"python3 -m webbrowser {shlex.quote(str(folder / 'report.html'))}"
    yield "a collection of your own", f"{run}{preset} --set dataset=beir:path/to/folder --output runs/mine"
    for name, spec in recipe.stages.items():
        if steps := getattr(getattr(spec, "options", None), "max_steps", None):
            yield "one thing changed", f"{run} --set stages.{name}.options.max_steps={2 * steps}"
            return


def _program() -> str:
    """How hardneg was called, if not by its name alone."""
    called = Path(sys.argv[0])
    return "hardneg" if called.name != "hardneg" or shutil.which("hardneg") else shlex.quote(str(called))
