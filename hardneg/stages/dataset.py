"""Stage `dataset`: reads a collection once and keeps it as Arrow files."""

from typing import Any

from hardneg.data.collection import write_collection
from hardneg.datasets.held_out import WithheldCollection
from hardneg.stages.context import StageContext


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Writes the collection; facts: counts of documents, queries and judgements, and of what was left out."""
    collection = work.plugins["loader"].load()
    if work.spec.withheld is not None:
        collection = WithheldCollection(collection, work.spec.withheld)
    return write_collection(collection, work.folder, work.progress)
