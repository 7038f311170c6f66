"""The arguments of `browse` beside those of every function, for the command and for the function."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from hardneg.api.arguments import AnyRun, Arg, Dataset, Where


class LookedAt(Where, total=False):
    """The options of `browse` beside those of every function."""

    dataset: Annotated[Dataset | None, Arg("With files, for texts and judgements.")]
    split: Annotated[str | None, Arg("The queries' split; default train, or that of the negatives.")]
    runs: Annotated[Sequence[AnyRun], Arg("TREC runs beside the negatives, for ranks and scores.", default=())]
    filter_by: Annotated[Sequence[AnyRun], Arg("Like runs, with the scores of a reranker or guide.", default=())]
    dropped: Annotated[str | Path | None, Arg("What the miner left out, as `hardneg mine` writes it.")]
    marks: Annotated[str | Path | None, Arg("The file of marks; default NAME.marks.qrels beside what is shown.")]
    port: Annotated[int, Arg("The port; default: a free one.", default=0)]
