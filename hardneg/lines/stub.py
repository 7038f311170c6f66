"""Writes `hardneg/__init__.pyi`, by which editors see the functions: `python -m hardneg.lines.stub`.

Lines of other packages are not in it.
"""

import re
from pathlib import Path
from textwrap import indent

import hardneg
from hardneg.lines.base import REQUIRED, Line
from hardneg.lines.functions import arguments_of, docstring, type_of
from hardneg.lines.installed import line_of, line_targets

PATH = Path(hardneg.__file__).with_name("__init__.pyi")
_TYPES = {
    "Any": "typing",
    "AnyQrels": "hardneg.api.qrels_argument",
    "AnyRun": "hardneg.api.run_argument",
    "BenchResult": "hardneg.api.benching",
    "BuiltIndex": "hardneg.api.results",
    "Dataset": "hardneg.api.dataset_argument",
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
    "Progress": "hardneg.runtime.progress",
    "Runs": "hardneg.api.run_argument",
    "Sequence": "collections.abc",
    "Settings": "hardneg.api.keyword_arguments",
    "TrainedModel": "hardneg.api.results",
}
"""Where the types of signatures are."""


def text() -> str:
    """The whole stub."""
    lines = [line_of(name) for name, target in line_targets().items() if target.startswith("hardneg.lines.")]
    functions = "\n\n".join(map(_function, lines))
    used = sorted({name for name in re.findall(r"\w+", functions) if name in _TYPES})
    named = {line.name for line in lines}
    others = {**vars(hardneg)["_PUBLIC"], **vars(hardneg)["_CALLED"]}
    imports = [f"from {others[name]} import {name} as {name}" for name in sorted(others) if name not in named]
    types = [f"from {_TYPES[name]} import {name}" for name in used]
    head = '"""The public names of hardneg. Made by `python -m hardneg.lines.stub`: change the lines, not this file."""'
    return "\n".join([head, "", *sorted([*imports, *types]), "", "__version__: str", "", functions])


def _function(line: type[Line]) -> str:
    parameters = []
    for number, each in enumerate(arguments_of(line)):
        default = "" if each.default is REQUIRED else f" = {None if each.of_dataset else each.default!r}"
        parameters += ["*"] if number == line.positional else []
        parameters.append(f"{each.name}: {type_of(each)}{default}")
    parameter_lines = "".join(f"    {one},\n" for one in parameters)
    body = indent(f'"""{docstring(line)}\n"""', "    ")
    return f"def {line.name}(\n{parameter_lines}) -> {line.returns}:\n{body}\n"


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
