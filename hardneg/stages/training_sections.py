"""What trainings' histories say, as tables of a report with a title and an explanation."""

from typing import Any

from hardneg.analysis.history_tables import Columns, Rows, gradient_table, refresh_table


def gradient_section(content: Any) -> tuple[str, Columns, Rows, str]:
    """Figure 4 of ANCE."""
    explained = (
        "The loss, and 2-norms of the gradients before clipping, by third of the transformer's layers: embeddings "
        "belong to the bottom, the head to the top."
    )
    return "loss and gradients", *gradient_table(content), explained


def refresh_section(content: Any) -> tuple[str, Columns, Rows, str]:
    """Figure 5 of ANCE."""
    explained = (
        "Refreshes: how often training went over to newly mined negatives; lag: steps between the model that mined and "
        "the one that was trained. Loss: of the last tenth of the steps. The deepest fall: how far the dev metric once "
        "was below its best until then."
    )
    return "refreshed negatives", *refresh_table(content), explained
