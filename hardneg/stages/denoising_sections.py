"""What filters of negatives did, as tables of a report with a title and an explanation."""

from typing import Any

from hardneg.analysis.denoising_tables import example_table, planted_table, share_table
from hardneg.analysis.history_tables import Columns, Rows

_Section = tuple[str, Columns, Rows, str]


def denoising_section(content: Any) -> _Section:
    """Figure 5 of RocketQA."""
    explained = (
        "Of the candidates at a rank, known positives and copies left out, the share that was dropped for its score; "
        "then how many were dropped for which reason."
    )
    return "what was dropped, by rank", *share_table(content["filters"]), explained


def example_section(content: Any) -> _Section:
    """Table 4 of RocketQA."""
    explained = (
        "The queries with the highest scores that were dropped for them: a known positive, the document that was "
        "dropped, and the first negative that the filter chose."
    )
    return "examples of what was dropped", *example_table(content["examples"]), explained


def planted_section(content: Any) -> _Section:
    """Hidden positives, removed or not."""
    hidden, candidates = (_counts(content, name) for name in ("hidden", "candidates"))
    explained = (
        f"{hidden} hidden positives among {candidates} scored candidates: {content['queries']:,} queries of split "
        f"{content['split']}, {content['depth']} deep. Precision is the share of what is removed that was hidden: "
        "positives that nobody labelled count against it. Queries whose known positives have no score, and of which "
        f"filters that compare with them keep nothing: {_counts(content, 'queries with no scored positive')}."
    )
    return "hidden positives", *planted_table(content["scores"]), explained


def _counts(content: Any, name: str) -> str:
    """What the runs of scores say, once where they agree."""
    return " or ".join(f"{count:,}" for count in sorted({found[name] for found in content["scores"].values()}))
