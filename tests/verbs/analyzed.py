"""A stage `analyze` at work on artifacts that a test has made."""

import json

from hardneg.analysis.base import sections
from hardneg.runtime.progress import Silent
from hardneg.verbs.analyze import Analyze
from hardneg.verbs.shared.context import ArtifactInput, StageContext


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
