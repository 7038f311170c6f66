"""What first stages find, as tables of a report with a title and an explanation."""

from typing import Any

from hardneg.analysis.first_stage_tables import candidate_table, depth_table, dimension_table
from hardneg.analysis.history_tables import Columns, Rows

_Section = tuple[str, Columns, Rows, str]


def depth_section(content: Any) -> _Section:
    """Table 2 of CoRT at TREC."""
    explained = f"Relevant to recall are grades from {content['relevance_level']} up; nDCG takes grades as they are."
    return "what first stages find", *depth_table(content), explained


def candidate_section(content: Any) -> _Section:
    """Figure 2 of CoRT at TREC."""
    explained = (
        f"{content['metric']} after reranking the first so many candidates alone, and the recall of those candidates; "
        "from one reranked run, cut. Relevant to binary metrics are grades from "
        f"{content['relevance_level']} up."
    )
    return "number of candidates", *candidate_table(content), explained


def dimension_section(content: Any) -> _Section:
    """The representation size e of CoRT."""
    return "size of vectors", *dimension_table(content), "Each size is a model of its own."
