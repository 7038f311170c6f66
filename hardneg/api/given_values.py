"""Names and numbers as functions are given them, checked by the fields of the stages that they are for."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Annotated, Any

from hardneg.errors import UsageError


def names_of(argument: str, given: Any) -> list[str]:
    """One name, or several of any iterable. Raises UsageError where something is no text."""
    names = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise UsageError(f"{argument}: must be a name or a list of names (got {odd[0]!r:.60})")
    return names


def number_of(verb: str, field: str, given: Any, argument: str = "") -> Any:
    """A number within the bounds of a verb's field; whole, where that is of whole numbers.

    argument: what the function calls it; as the field, if empty.

    Raises:
        UsageError: it is no such number.
    """
    from pydantic import TypeAdapter, ValidationError

    from hardneg.registry import load_plugin
    from hardneg.wording import complaint

    info = load_plugin("stages", verb).model_fields[field]
    plain = int(given) if _is_whole(given) else float(given) if isinstance(given, Real) else given
    kind: Any = Annotated[(info.annotation, *info.metadata)]
    try:
        return TypeAdapter(kind).validate_python(plain, strict=True)
    except ValidationError as error:
        told = {**error.errors()[0], "input": given}
        raise UsageError(f"{argument or field}: {complaint(told)}") from None


def _is_whole(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool)
