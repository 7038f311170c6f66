"""Options that have new names: the old ones are read for one release, and told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Renamed:
    """What an option is called now. A class of options lists these by the old names, in `renamed`.

    values: what its values are now, by what they were; others are as they were.
    """

    name: str
    values: Mapping[Any, Any] = field(default_factory=dict)

    def old_value(self, value: Any) -> Any:
        """What a value of today was under the old name."""
        return next((old for old, new in self.values.items() if new == value and type(new) is type(value)), value)


def old_names(options: Mapping[str, Any], renamed: Mapping[str, Renamed]) -> dict[str, Any]:
    """Options under the names, and with the values, that they had before: what an identity is made of."""
    old = {change.name: (name, change) for name, change in renamed.items()}
    return dict(
        (old[name][0], old[name][1].old_value(value)) if name in old else (name, value)
        for name, value in options.items()
    )
