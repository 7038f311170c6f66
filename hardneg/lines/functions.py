"""The Python functions, each made from its line when it is first asked for."""

import inspect
from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from hardneg.lines.base import REQUIRED, Argument, Line, common
from hardneg.lines.installed import line_of
from hardneg.records.errors import UsageError


def __getattr__(name: str) -> Any:
    return function_of(line_of(name))


@cache
def function_of(line: type[Line]) -> Callable[..., Any]:
    """The function of a line, with the signature and the docstring that its arguments make."""
    own_signature = signature(line)

    def call(*positional: Any, **named: Any) -> Any:
        from hardneg.api.workplace import Workplace

        if unknown := [name for name in named if name not in own_signature.parameters]:
            from hardneg.records.wording import suggestion

            raise UsageError(f"no argument {unknown[0]!r}{suggestion(unknown[0], own_signature.parameters)}")
        values = own_signature.bind(*positional, **named).arguments
        where = {name: values.pop(name) for name in (each.name for each in common(line)) if name in values}
        if "seed" in values:
            where["seed"] = values["seed"]
        checked = line.checked(values)
        return line().result(checked, Workplace.of(where))  # type: ignore[arg-type]

    call.__name__ = call.__qualname__ = line.name
    call.__doc__ = docstring(line)
    call.__module__ = "hardneg"
    call.__signature__ = own_signature  # type: ignore[attr-defined]
    return call


def arguments_of(line: type[Line]) -> list[Argument]:
    """All arguments of the function, those that every function takes last."""
    return [each for each in (*line.resolved().values(), *common(line)) if "function" in each.shown_in]


def signature(line: type[Line]) -> Signature:
    """That of the function: the first arguments may be given by their place, the others by name."""
    parameters = []
    for number, each in enumerate(arguments_of(line)):
        passing = Parameter.POSITIONAL_OR_KEYWORD if number < line.positional else Parameter.KEYWORD_ONLY
        default = Parameter.empty if each.default is REQUIRED else None if each.of_dataset else each.default
        parameters.append(Parameter(each.name, passing, default=default, annotation=type_of(each)))
    return Signature(parameters, return_annotation=line.returns)


def type_of(argument: Argument) -> str:
    """The type of an argument as source has it; that of a split may be left to the dataset."""
    missing = argument.default is None or argument.of_dataset
    return f"{argument.type} | None" if missing and not argument.type.endswith("None") else argument.type


def docstring(line: type[Line]) -> str:
    """What the line says of itself, and of each argument its help."""
    text, raises, _ = parts(line)
    lines = []
    for each in arguments_of(line):
        usual = f" Default: {each.default}, or the only one of a dataset in memory." if each.of_dataset else ""
        lines.append(f"    {each.name}: {each.help}{f' Or {each.objects}.' if each.objects else ''}{usual}")
    return "\n\n".join([text, "Args:\n" + "\n".join(lines), *raises])


def parts(line: type[Line]) -> tuple[str, list[str], list[str]]:
    """The text of a line's docstring, its section of errors, and its examples."""
    blocks = inspect.cleandoc(line.__doc__ or "").split("\n\n")
    raises = [block for block in blocks if block.startswith("Raises:")]
    examples = [block for block in blocks if block.startswith("Example:")]
    return "\n\n".join(block for block in blocks if block not in (*raises, *examples)), raises, examples
