"""The exceptions of hardneg; each message says in one line what is wrong, where, and what to do."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path


class HardnegError(Exception):
    """The base class of all hardneg exceptions.

    Args:
        message: the problem, with argument names in braces, such as `{depth}`.
        names: the arguments in braces, shown as names by functions and as flags by commands (see `called`).
    """

    exit_code = 1
    called: Callable[[str], str] = staticmethod(str)

    def __init__(self, message: str = "", *names: str) -> None:
        super().__init__(message, *names)
        self.message, self.names = message, names

    def __str__(self) -> str:
        return re.sub(
            r"\{(\w+)\}", lambda match: self.called(match[1]) if match[1] in self.names else match[0], self.message
        )


class UsageError(HardnegError):
    """A command or a call has a wrong argument."""

    exit_code = 2


class RecipeError(UsageError):
    """A recipe has mistakes. problems: one line per mistake. names: the arguments in braces, as in `HardnegError`."""

    def __init__(self, source: str, problems: Sequence[str], names: Sequence[str] = ()) -> None:
        self.source, self.problems = source, tuple(problems)
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {problem}" for problem in problems), *names)


class PluginError(HardnegError):
    """A plugin is unknown, claimed by two packages, broken, or has invalid options."""

    exit_code = 3


class DataError(HardnegError):
    """A data file, or data in memory, is missing or malformed."""

    exit_code = 4

    @classmethod
    def at(cls, path: Path | str, line: int, reason: str) -> "DataError":
        """Return the error for one line (counted from 1) of a file."""
        return cls(f"{path}:{line}: {reason}")


class ArtifactError(HardnegError):
    """An artifact or file cannot be read or written."""

    exit_code = 5


class NotOurs(ArtifactError):
    """The artifact is intact, but must not be replaced."""


class NewerArtifact(NotOurs):
    """A newer hardneg wrote the artifact."""


class ClosedArtifact(NotOurs):
    """Another user created the artifact, and the current user may not read it."""


class ModelError(HardnegError):
    """A model cannot be found, loaded or saved."""

    exit_code = 6


class MissingDependency(HardnegError):
    """An optional package or a Java runtime is missing; the message says what to install."""

    exit_code = 7


class TrainingError(HardnegError):
    """Training cannot start or continue; the message gives the reason."""

    exit_code = 8


class HubError(HardnegError):
    """The Hugging Face hub cannot be reached, or rejects an upload."""

    exit_code = 9
