"""Arguments that several lines have, and that are fields of no verb."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import mapping_of
from hardneg.api.keyword_arguments import AnalyzeArguments, keywords
from hardneg.lines.base import Argument, Of
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.named_plugins import MINER

DATASET = Argument(
    "dataset",
    "beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name.",
    "Dataset",
    plugins="datasets",
    objects="a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels",
)
RUNS = Argument(
    "runs",
    "A TREC run, plain or gzip; may be repeated.",
    "Runs",
    form=list[Path],
    flag="run",
    objects="what a search returned, or scores by document by query; several in a list, or in a dict by label",
)
RUN = Argument(
    "run",
    "A TREC run, plain or gzip.",
    "AnyRun",
    form=Path,
    objects="what a search returned, or scores by document by query",
)
_QRELS_TYPE, _JUDGEMENTS = keywords(AnalyzeArguments)["qrels"]
QRELS = Argument("qrels", _JUDGEMENTS.help, _QRELS_TYPE, None, form=Path, objects=_JUDGEMENTS.objects)
MODEL = Argument(
    "model",
    "A folder, a hub id, or packaged:all-MiniLM-L6-v2.",
    "Model",
    objects="what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`",
)
VECTORS = (
    Argument(
        "index",
        "With vectors of queries: a dense index folder, in place of a model.",
        "str | Path | BuiltIndex | None",
        None,
        form=Path,
        objects="what `encode` returned",
    ),
    Argument(
        "query_vectors",
        "The queries' vectors: Parquet, JSON Lines, or a .npy array with their ids.",
        "str | Path | None",
        None,
        form=Path,
    ),
    Argument("query_ids", "The ids of the vectors of a .npy array, one a line.", "str | Path | None", None, form=Path),
)
"""In place of a model's search: a folder of vectors, and files of those of the queries, as other programs made them."""


TRAIN_OPTIONS = Argument(
    "options",
    "A training option: max_steps=200 (default: one epoch), batch_size (32), learning_rate (by the kind of model) ...",
    "Mapping[str, Any]",
    {},
    dict[str, Any],
    partial(mapping_of, "options"),
    flag="train-option",
    metavar="KEY=VALUE",
)
LISTED = Of("search.depth", default=MINED_DEPTH)
"""The lists to mine from."""
MINED_BY = Of("mine.miner", default=MINER)


def optional(argument: Argument) -> Argument:
    """The same, where something else may be given instead."""
    return replace(argument, type=f"{argument.type} | None", default=None)
