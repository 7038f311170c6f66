"""Old names of options: they work for one more release, each with a line on stderr that gives the new one."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperCommand

from hardneg.cli.printing import say

METRIC = {"--metrics": "--metric"}
"""Of a command that takes one metric."""

METRICS = {"--metric": "--metrics"}
"""Of a command that takes several."""


class _Renaming(TyperCommand):
    old: ClassVar[Mapping[str, str]] = {}
    same: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments by the new names."""
        given = [] if ctx.resilient_parsing else _used(args, self.old)
        for name in given:
            _tell(name, self.old[name])
        return list(super().parse_args(ctx, _renamed(args, {**self.old, **self.same})))


def renaming(old: Mapping[str, str] = {}, same: Mapping[str, str] = {}) -> type[TyperCommand]:
    """A command that takes other names of its options too, which its help does not show.

    Args:
        old: the new name by the old one, which goes with the next release and is told.
        same: the name by another one that stays and is not told.
    """
    return type("Renaming", (_Renaming,), {"old": old, "same": same})


def _used(args: Sequence[str], names: Mapping[str, str]) -> list[str]:
    before = args[: args.index("--")] if "--" in args else args
    return list(dict.fromkeys(name for arg in before if (name := arg.partition("=")[0]) in names))


def _renamed(args: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The arguments with new names; what follows `--` is no option."""
    end = args.index("--") if "--" in args else len(args)
    return [_name(arg, names) for arg in args[:end]] + list(args[end:])


def _name(arg: str, names: Mapping[str, str]) -> str:
    name, equals, value = arg.partition("=")
    return f"{names.get(name, name)}{equals}{value}"


def _tell(name: str, new: str) -> None:
    from hardneg.cli.launch import ASKED
    from hardneg.distributed import world

    if world().first and ASKED not in os.environ:  # the one that has started the others has said it
        say(f"hardneg: {name} is called {new} now; the next release no longer knows {name}", err=True)
