"""The first queries as one page without a server: each with its positives, negatives and drops."""

from pathlib import Path

from hardneg.doors.browse.browsed import Browsed
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.pages import page, policy
from hardneg.doors.browse.query_page import query_page
from hardneg.store.atomic_write import replace_text

QUERIES = 200
NEGATIVES = 20
"""Of each query, the first ones."""


def export_page(browsed: Browsed, label: str, marks: Marks, target: Path, count: int = QUERIES) -> int:
    """Writes the first queries that have negatives in a list; returns how many there are.

    Memory: the page, about 40 kB a query.
    """
    ids = [query_id for query_id in browsed.search.query_ids if browsed.lists[label].count(query_id)][:count]
    shown = [query_page(browsed, query_id, label, marks.of(query_id)) for query_id in ids]
    content = page(
        "export",
        title=browsed.sources.title,
        label=label,
        negatives=NEGATIVES,
        shown=shown,
        total=len(browsed.search.query_ids),
        judges=browsed.sources.judges,
        policy=policy("'none'").replace("; frame-ancestors 'none'", ""),
    )
    replace_text(target, content)
    return len(shown)
