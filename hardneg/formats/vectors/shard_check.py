"""Whether shards at URLs are still what their list declares, checked by reading every byte there."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.formats.vectors.remote import is_url
from hardneg.formats.vectors.shard_folder import Closed
from hardneg.formats.vectors.shards import Shard, Shards
from hardneg.records.errors import ArtifactError


def far_shards(folder: Path) -> Sequence[Shard]:
    """The shards of a folder that are at URLs; none where it has no list, or one that cannot be read."""
    try:
        shards = Shards.of(folder)
    except ArtifactError:
        return ()
    return [shard for shard in shards.listed if is_url(shard.location)] if shards else ()


def shard_problem(shard: Shard) -> str:
    """What is wrong with a shard at a URL, every byte of which is read there; empty where nothing is.

    One of its files at a time is on this disk.
    """
    try:
        closed = Closed.listed_as(shard)
        for name in closed.said["files"]:
            with closed.file(name):
                pass
    except ArtifactError as error:
        return str(error)
    return ""
