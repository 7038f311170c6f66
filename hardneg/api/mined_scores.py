"""The scores of positives beside what was mined: in the run that it was mined from, else the model's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.api.mined import MinedNegatives
from hardneg.api.workplace import Workplace
from hardneg.records.layout import RUN

if TYPE_CHECKING:
    from hardneg.indexes.positive_scores import PositiveScores
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan
    from hardneg.records.types import Encoded


@dataclass(frozen=True)
class RunScores:
    """The scores of positives in a run; nan where it lacks them."""

    run: Path

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        from hardneg.formats.runs import read_run
        from hardneg.indexes.positive_scores import scores_in_run

        return scores_in_run(mined, read_run(self.run).items())


@dataclass(frozen=True)
class ModelScores:
    """The scores of positives in the run of a search; the model's own where that did not reach them.

    index, run: the steps that encode and search.
    """

    plan: "Plan"
    outcome: "Outcome"
    workplace: Workplace
    index: str
    run: str

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        import numpy as np

        from hardneg.formats.runs import stream_run
        from hardneg.indexes.positive_scores import scores_in_run

        scores = scores_in_run(mined, stream_run(self.outcome.artifacts[self.run].path / RUN))
        if any(np.isnan(values).any() for values in scores.values()):
            self._fill(scores, mined)
        return scores

    def _fill(self, scores: "PositiveScores", mined: MinedNegatives) -> None:
        from hardneg.encoders.open.resolved import load_encoder
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.indexes.kernels.max_passage import pooled
        from hardneg.indexes.open_store import open_store
        from hardneg.indexes.positive_scores import fill_from_model

        encoder, folder = (
            load_encoder(self.plan.recipe.model, self.workplace.device),
            self.outcome.artifacts[self.index].path,
        )
        options, source = EncodeOptions(precision="fp32"), mined.source
        searcher = pooled(open_store(folder), folder, source.collection.corpus.doc_ids)

        def encode(texts: Sequence[str]) -> "Encoded":
            return encoder.encode(texts, "query", options, self.workplace.progress)

        queries = source.collection.queries(source.split)
        fill_from_model(scores, mined, queries, source.collection, encode, searcher)
