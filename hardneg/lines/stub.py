"""Writes `hardneg/__init__.pyi`, by which editors see the functions: `python -m hardneg.lines.stub`.

Lines of other packages are not in it.
"""

import inspect
import re
from collections.abc import Callable
from inspect import Parameter, isfunction
from pathlib import Path
from textwrap import indent
from typing import Any

import hardneg
from hardneg.lines.functions import function_of
from hardneg.lines.installed import line_of, line_targets

PATH = Path(hardneg.__file__).with_name("__init__.pyi")
_TYPES = {
    "AnalysisResult": "hardneg.api.analyzing",
    "Any": "typing",
    "AnyQrels": "hardneg.api.qrels_argument",
    "AnyRun": "hardneg.api.run_argument",
    "BenchResult": "hardneg.api.benching",
    "BuiltIndex": "hardneg.api.results",
    "Dataset": "hardneg.api.dataset_argument",
    "Diagnosis": "hardneg.diagnosis.diagnose",
    "Evaluation": "hardneg.api.evaluation",
    "Goal": "hardneg.api.recommended_recipe",
    "RankedRun": "hardneg.api.results",
    "RecommendedNegatives": "hardneg.api.recommending",
    "Iterable": "collections.abc",
    "Literal": "typing",
    "Mapping": "collections.abc",
    "MinedNegatives": "hardneg.api.mined",
    "Model": "hardneg.api.model_argument",
    "Path": "pathlib",
    "PathLike": "os",
    "Progress": "hardneg.runtime.progress",
    "Runs": "hardneg.api.run_argument",
    "Sequence": "collections.abc",
    "Settings": "hardneg.api.keyword_arguments",
    "Started": "hardneg.api.starting",
    "TrainedModel": "hardneg.api.results",
    "WrittenQueries": "hardneg.api.results",
}
"""Where the types of signatures are."""


def text() -> str:
    """The whole stub."""
    public = {**vars(hardneg)["_PUBLIC"], **vars(hardneg)["_CALLED"]}
    lines = [line_of(name) for name, target in line_targets().items() if target.startswith("hardneg.lines.")]
    written = {line.name: function_of(line) for line in lines}
    written |= {name: value for name in sorted(public) if isfunction(value := getattr(hardneg, name))}
    functions = "\n\n".join(_spelled(*each) for each in written.items())
    used = sorted({name for name in re.findall(r"\w+", functions) if name in _TYPES})
    imports = [f"from {public[name]} import {name} as {name}" for name in sorted({*public} - {*written})]
    types = [f"from {_TYPES[name]} import {name}" for name in used]
    head = '"""The public names of hardneg. Made by `python -m hardneg.lines.stub`: change the lines, not this file."""'
    return "\n".join([head, "", *sorted([*imports, *types]), "", "__version__: str", "", functions])


def _spelled(name: str, function: Callable[..., Any]) -> str:
    """A function with all arguments of its signature; types without the modules they are from."""
    signature, names, parameters = inspect.signature(function), inspect.getfullargspec(function), []
    for each in signature.parameters.values():
        if each.name == next(iter(names.kwonlyargs), None):
            parameters.append("*")
        stars = "**" if each.name == names.varkw else ""
        default = "" if each.default is Parameter.empty else f" = {each.default!r}"
        parameters.append(f"{stars}{each.name}: {_type(each.annotation)}{default}")
    parameter_lines = "".join(f"    {one},\n" for one in parameters)
    body = indent(f'"""{inspect.getdoc(function)}\n"""', "    ")
    return f"def {name}(\n{parameter_lines}) -> {_type(signature.return_annotation)}:\n{body}\n"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
