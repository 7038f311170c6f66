"""The public names of hardneg. Made by `python -m hardneg.lines.stub`: change the lines, not this file."""

from collections.abc import Mapping
from collections.abc import Sequence
from hardneg.api.analyzing import analyze as analyze
from hardneg.api.evaluation import evaluate as evaluate
from hardneg.api.given_dataset import Dataset
from hardneg.api.given_qrels import AnyQrels
from hardneg.api.given_run import AnyRun
from hardneg.api.given_run import Runs
from hardneg.api.mining import mine as mine
from hardneg.api.recipes import recipe as recipe
from hardneg.api.recommending import recommend as recommend
from hardneg.api.results import FoundRun
from hardneg.api.searching import encode as encode
from hardneg.api.searching import index as index
from hardneg.api.searching import search as search
from hardneg.api.searching import train as train
from hardneg.api.workplace import Settings
from hardneg.browse.calling import browse as browse
from hardneg.errors import HardnegError as HardnegError
from hardneg.hub.push import push as push
from hardneg.mteb_search.model import mteb_model as mteb_model
from hardneg.progress import Progress
from pathlib import Path
from typing import Any
from typing import Literal

__version__: str

def fuse(
    runs: Runs,
    method: Literal["zip", "weighted-sum", "reciprocal-rank", "bordafuse", "anz", "gmnz", "max", "med", "min", "mnz", "sum", "isr", "log_isr", "logn_isr", "mixed", "rbc", "rrf", "w_bordafuse", "wmnz", "wsum"] = 'weighted-sum',
    *,
    weights: Mapping[str, float] = {},
    missing_scores: Literal["lowest", "zero"] = 'lowest',
    constant: int = 60,
    norm: Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"] | None = None,
    parameter: float | None = None,
    depth: int = 100,
    tune_runs: Runs | None = None,
    qrels: AnyQrels | None = None,
    metric: str = 'ndcg@10',
    relevance_level: int = 1,
    grid: Mapping[str, Sequence[float]] = {},
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> FoundRun:
    """Make one run of several: by sums of scores or ranks, by turns, the first run first (zip), or as ranx does it.

    Args:
        runs: A TREC run, plain or gzip. Or what a search returned, or scores by document by query; several in a list, or in a dict by label.
        method: zip, by turns, the first run first; weighted-sum, of scores; reciprocal-rank; or one of ranx's.
        weights: A run's weight, by its label; else 1.
        missing_scores: Of weighted-sum: what a document scores in a run that lacks it, that run's lowest or 0.
        constant: Of reciprocal-rank.
        norm: Of ranx's methods: min-max (the default), none, zmuv, ...
        parameter: The number that gmnz, logn_isr, rbc or rrf has.
        depth: How many documents are kept for each query.
        tune_runs: Runs of other queries, to choose the numbers by: one for each that is fused, in their order. Or what a search returned, or scores by document by query; several in a list, or in a dict by label.
        qrels: The judgements of the queries to tune on. Or grades by document by query.
        metric: What to tune by.
        relevance_level: The lowest grade that binary metrics take as relevant (trec_eval -l).
        grid: Values to try: of a run's weight, of `constant` or of `parameter`, every combination; else all weights in tenths that sum to 1.
        settings: Any value of the line, such as model.document_length=256.
        store: The artifact store; default, and where it is empty, $HARDNEG_STORE, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best there is.
        engine: Where the blocks of encode, search, mine and rerank are made; `hardneg plugins list engines` shows them.
        seed: What is drawn by.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: the method has no such number, or a label is unknown.
        DataError: a run has a mistake, or is tuned on the queries that are fused.
    """


def rerank(
    dataset: Dataset,
    run: AnyRun,
    reranker: str | Mapping[str, Any],
    *,
    split: str | None = None,
    depth: int = 100,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> FoundRun:
    """Score the best documents of a run anew, query and document together.

    Scores are kept by content in the user's cache: the same again, or more of it, is quick.

    Args:
        dataset: beir:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        run: The TREC run to take the documents from, plain or gzip. Or what a search returned, or scores by document by query.
        reranker: A reranker, taken as it is: cross-encoder:FOLDER or cross-encoder:HUB-ID.
        split: The queries' split. Default: test, or the only one of a dataset in memory.
        depth: How many documents of each query are scored, the best ones.
        settings: Any value of the line, such as model.document_length=256.
        store: The artifact store; default, and where it is empty, $HARDNEG_STORE, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best there is.
        engine: Where the blocks of encode, search, mine and rerank are made; `hardneg plugins list engines` shows them.
        seed: What is drawn by.
        progress: Whether to show bars, or what shows them.

    Raises:
        RecipeError: there is no such reranker, or it has no such option.
        DataError: the run has a mistake, or none of its queries is in the split.
    """
