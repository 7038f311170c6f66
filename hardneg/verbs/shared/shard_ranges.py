"""Shards that several machines share: the URL that they are put at, and those that one machine takes."""

from collections.abc import Iterator

from hardneg.formats.vectors.remote import check_url
from hardneg.records.errors import UsageError

TAKEN = r"^\d*:\d*$"
"""What `take` looks like."""


def taken_shards(take: str | None) -> slice:
    """The numbers of the shards that `take` names; all where it names none."""
    begin, _, end = (take or ":").partition(":")
    return slice(int(begin) if begin else None, int(end) if end else None)


def sharing_problems(place: str | None, take: str | None) -> Iterator[str]:
    """What is wrong with a place and what is taken of it, one line each."""
    if take is not None and place is None:
        yield "take: the other machines' shards need a common place; give place, a URL, or leave it out"
    if place is not None:
        try:
            check_url(place)
        except UsageError as error:
            yield f"place: {error}"
