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


def sharing_problems(url: str | None, take: str | None) -> Iterator[str]:
    """What is wrong with `place`, the shared URL, and `take`, the shards of this machine; one line each."""
    if take is not None and url is None:
        yield "take: the other machines' shards need a common place; give place, a URL, or leave it out"
    if url is not None:
        try:
            check_url(url)
        except UsageError as error:
            yield f"place: {error}"
