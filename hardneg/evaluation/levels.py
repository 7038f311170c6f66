"""The level below which corrected p values have a difference called one."""

from hardneg.records.errors import UsageError

LEVEL = 0.01
"""Where no other is said."""


def known_level(level: float) -> float:
    """A level of significance. Raises UsageError where it is none."""
    if not 0 < level < 1:
        raise UsageError(f"significance level {level:g}: must be above 0 and below 1, such as 0.05")
    return level
