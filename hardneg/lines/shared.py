"""Arguments that several lines have, and that are fields of no verb."""

from pathlib import Path

from hardneg.lines.base import Argument

DATASET = Argument(
    "dataset",
    "beir:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name.",
    "Dataset",
    plugins="datasets",
    objects="a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels",
)
RUNS = Argument(
    "runs",
    "A TREC run, plain or gzip.",
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
QRELS = Argument(
    "qrels",
    "Judgements: TREC or BEIR form, plain or gzip.",
    "AnyQrels | None",
    None,
    form=Path,
    objects="grades by document by query",
)
