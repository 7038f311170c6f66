"""The arguments of `browse` beside those of every function, for the command and for the function."""

from typing import TYPE_CHECKING, Annotated

from hardneg.api.keyword_arguments import Keyword, Where

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hardneg.api.dataset_argument import Dataset
    from hardneg.api.run_argument import AnyRun


class LookedAt(Where, total=False):
    """The options of `browse` beside those of every function."""

    dataset: Annotated["Dataset | None", Keyword("With files, for texts and judgements.")]
    split: Annotated["str | None", Keyword("The queries' split; default train, or that of the negatives.")]
    runs: Annotated["Sequence[AnyRun]", Keyword("TREC runs beside the negatives, for ranks and scores.", ())]
    filter_by: Annotated["Sequence[AnyRun]", Keyword("Like runs, with the scores of a reranker or guide.", ())]
    dropped: Annotated["str | Path | None", Keyword("What the miner left out, as `hardneg mine` writes it.")]
    marks: Annotated["str | Path | None", Keyword("The file of marks; default NAME.marks.qrels beside what is shown.")]
    port: Annotated["int", Keyword("The port; default: a free one.", 0)]
