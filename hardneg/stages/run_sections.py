"""What runs say, as tables of a report with a title and an explanation."""

from typing import Any

from hardneg.analysis.history_tables import Columns, Rows
from hardneg.analysis.run_tables import hole_table, overlap_table, score_table, win_table

_Section = tuple[str, Columns, Rows, str]


def score_section(content: Any) -> _Section:
    """Figure 3 of ANCE."""
    explained = (
        "A score as its share of the way from the last one of the list, cut at the depth, to the best one; means over "
        "queries: the first rank that is below one half, and the share at half of the depth."
    )
    return "the tail of scores", *score_table(content), explained


def overlap_section(content: Any) -> _Section:
    """Table 6 of ANCE, and how many of the negatives trained on are met in testing."""
    explained = (
        f"Means over queries: of a run's first {content['depth']} documents, the share that is among the other's; of a "
        f"training's negatives, the share that is among the first {content['depth']} documents that the trained model "
        "finds and that are not relevant."
    )
    return "overlap", *overlap_table(content), explained


def hole_section(content: Any) -> _Section:
    """Table 6 of ANCE."""
    explained = "Holes: documents that nobody judged, as a share of what is ranked highest. " + (
        f"{content['judged_zero']:,} documents are judged not relevant."
        if content["judged_zero"]
        else "No document is judged not relevant, so that a hole may be a miss."
    )
    return "holes in the judgements", *hole_table(content), explained


def win_section(content: Any) -> _Section:
    """Tables 8 and 9 of ANCE."""
    counts = f"{content['wins']} won, {content['losses']} lost, {content['ties']} equal by {content['metric']}"
    explained = (
        f"{counts}. Shown are the greatest differences, and the first rank at which the better run has the more "
        "relevant document, or, where there is none, at which the two differ."
    )
    return f"{content['run']} against {content['against']}", *win_table(content, content["examples"]), explained
