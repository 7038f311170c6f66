"""`Reranker`: a reranker of hardneg as a transformer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from hardneg.plugin import PluginSetting, configure
from hardneg.plugin import Reranker as RerankerPlugin


class Reranker(pt.Transformer):  # type: ignore[misc]
    """Documents of each query with the scores of a reranker, best first."""

    def __init__(self, plugin: str, *, text: str = "text", **options: Any) -> None:
        """plugin: the name of a reranker of hardneg, such as `cross-encoder`, with its options; text: the column.

        Raises:
            PluginError: there is no such reranker, or it has no such option.
        """
        super().__init__()
        self.plugin: RerankerPlugin = configure("rerankers", PluginSetting(plugin, options))
        self.text = text

    @classmethod
    def from_folder(cls, folder: str | Path, **options: Any) -> "Reranker":
        """The cross-encoder that a recipe trained and saved in a folder."""
        return cls("cross-encoder", source=str(folder), **options)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The same rows with new scores and ranks from 0; ties stay in their order."""
        pt.validate.result_frame(frame, extra_columns=["query", self.text])
        if not len(frame):
            return frame.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype=int))
        groups = [np.asarray(rows) for rows in frame.groupby("qid", sort=False).indices.values()]
        requests = self._requests(frame, groups)
        parts = [
            _ranked(frame.iloc[rows], scores) for rows, scores in zip(groups, self.plugin.rerank(requests), strict=True)
        ]
        return pd.concat(parts).reset_index(drop=True)

    def _requests(self, frame: pd.DataFrame, groups: Sequence[Any]) -> Iterator[tuple[str, Sequence[str]]]:
        for rows in groups:
            part = frame.iloc[rows]
            yield str(part["query"].iloc[0]), part[self.text].astype(str).tolist()

    def __repr__(self) -> str:
        return f"Reranker({self.plugin!r})"


def _ranked(part: pd.DataFrame, scores: Sequence[float]) -> pd.DataFrame:
    values = np.asarray(scores, float)
    order = np.argsort(-values, stable=True)
    return part.iloc[order].assign(score=values[order], rank=np.arange(len(values)))
