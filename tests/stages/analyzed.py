"""A stage `analyze` at work on artifacts that a test has made."""

import json

import numpy as np
import pytest
from recipes.recipes import recipe_in, small_collection, small_tree, stored_collection

from hardneg.analysis.base import sections
from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Negatives, RecipeError
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.evaluate import Analyze
from tests.run_lists import falling


def analyze(analysis, **shared):
    return Analyze.model_validate({"stage": "analyze", "analysis": analysis, **shared})


def context(folder, analysis, inputs, dataset=None, **shared):
    """inputs: by the path of the reference in its analysis, `unjudged.runs.BM25`."""
    folder.mkdir(exist_ok=True)
    given = {f"analysis.{path}": source for path, source in inputs.items()}
    stored = {"dataset": ArtifactInput("d", "", dataset)} if dataset else {}
    return StageContext("behind", analyze(analysis, **shared), folder, {**stored, **given}, {}, Silent())


def made(asked):
    """What the only analysis says, and its section of the report."""
    (name,) = asked.spec.make(asked)["analyses"]
    (section,) = sections("Behind", asked.spec.analysis, asked.folder)
    assert section.svg.count("<svg") == 1
    return json.loads((asked.folder / f"{name}.json").read_text()), section


def content(stored, folder, spec, **inputs):
    """`made` of the only analysis of a spec; inputs: the folder in `stored` of each reference, `runs__BM25`."""
    (name,) = spec
    given = {f"{name}.{path.replace('__', '.')}": ArtifactInput(of, "", stored / of) for path, of in inputs.items()}
    return made(context(folder, spec, given, stored / "stored"))


def refused(folder, model, analysis):
    """What is said of a recipe with this analysis before anything runs."""
    tree = small_tree(small_collection(folder / "data"), model)
    tree["stages"]["behind"] = {"stage": "analyze", "analysis": analysis}
    tree["stages"]["bm25-index"] = {"stage": "index", "backend": "bm25"}
    with pytest.raises(RecipeError) as caught:
        recipe_in(folder, tree)
    return str(caught.value)


SPARSE = {"q46": ["d46", "d1"], "q47": ["d1", "d47"], "q48": ["d2"]}
DENSE = {"q46": ["d1", "d46"], "q47": ["d47", "d3"], "q48": ["d2"]}


def stored_runs(folder):
    """Runs, negatives and what they are of, in a folder; returns it."""
    stored_collection(folder)
    for name, lists in (("sparse", SPARSE), ("dense", DENSE)):
        (folder / name).mkdir()
        write_run(folder / name / "run.trec.gz", falling(lists).items())
    (folder / "mined").mkdir()
    mined = Negatives("q46", ["d46"], ["d1", "d2"], np.zeros(2, np.float32))
    write_negatives(folder / "mined" / "negatives.arrow", [mined])
    return folder
