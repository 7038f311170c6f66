"""The public names of hardneg. Made by `python -m hardneg.lines.stub`: change the lines, not this file."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from hardneg.api.analyzing import AnalysisResult
from hardneg.api.benching import BenchResult
from hardneg.api.dataset_argument import Dataset
from hardneg.api.evaluation import Evaluation
from hardneg.api.keyword_arguments import Settings
from hardneg.api.mined import MinedNegatives
from hardneg.api.model_argument import Model
from hardneg.api.qrels_argument import AnyQrels
from hardneg.api.recipes import recipe as recipe
from hardneg.api.recommended_recipe import Goal
from hardneg.api.recommending import RecommendedNegatives
from hardneg.api.results import BuiltIndex
from hardneg.api.results import RankedRun
from hardneg.api.results import TrainedModel
from hardneg.api.results import WrittenQueries
from hardneg.api.run_argument import AnyRun
from hardneg.api.run_argument import Runs
from hardneg.api.starting import Started
from hardneg.diagnosis.diagnose import Diagnosis
from hardneg.records.errors import HardnegError as HardnegError
from hardneg.runtime.progress import Progress
from pathlib import Path
from typing import Any
from typing import Literal

__version__: str

def average(
    models: Sequence[Model],
    *,
    weights: Sequence[float] | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> TrainedModel:
    """Average the weights of several models into one, such as those of several seeds, or a start and what it became.

    The models are of one architecture and vocabulary; the tokenizer, prompts and lengths are those of the first. To
    choose among models on dev queries, and to average what a recipe trains, there is the stage `average`.

    Args:
        models: A folder, a hub id, or packaged:NAME; give it twice or more. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        weights: The weight of each model, in their order; by default all count alike.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: there is one model alone, or there are not as many weights as models.
        ModelError: the models are not of one architecture and vocabulary, or one is an adapter.
    """


def bench(
    negatives: str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    dataset: Dataset,
    *,
    form: str = 'hardneg',
    model: Model = 'packaged:wordllama',
    options: Mapping[str, Any] = {},
    seeds: int = 5,
    rates: float | Sequence[float] = (),
    equivalence_margin: float = 0.015,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> BenchResult:
    """Judge files of negatives, mined by any program: train with them, and compare with random and in-batch ones.

    A small model is trained with each file, with random negatives, and with one more in-batch negative per query
    instead; each learning rate is chosen on the dev queries, and the test is over queries and seeds.
    The report also counts labelled and planted positives in the files, and shows how hard and how varied they are. The
    same file gives the same figures.

    Args:
        negatives: Files of negatives of the training queries, one row each. Or a dict of files by the names of their rows.
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        form: Their form: triplet, n-tuple, labeled-list, tevatron-v1, tevatron-v2, dpr, flagembedding, hardneg.
        model: The student that is trained: a folder or a hub id. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        options: A training option: max_steps=200 (default: one epoch), batch_size (32), learning_rate (by the kind of model) ..; default max_steps=400 and batch_size=32.
        seeds: How often each arm is trained: twice or more.
        rates: A learning rate to try on dev queries; default 0.01 0.03 0.1 for a static model, else 1e-05 3e-05 0.0001.
        equivalence_margin: Systems are equivalent where their means surely differ by less than this.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: a file cannot be of the form, or two rows have one name.
        DataError: a file has a mistake, or no negatives of the dataset's training queries.
    """


def encode(
    dataset: Dataset,
    model: Model,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    place: str | None = None,
    take: str | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> BuiltIndex:
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        model: A folder, a hub id, or packaged:all-MiniLM-L6-v2. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        shards: Write the index in this many shards.
        shard_rows: Or in shards of this many rows each.
        place: A URL for the shards: s3, gs, hf, file.
        take: Make only these, such as 0:4, counted from 0; other machines make the others.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        PartDone: this machine's shards are made, and others are left to other machines.
    """


def evaluate(
    runs: Runs,
    qrels: AnyQrels | None = None,
    *,
    metrics: str | Iterable[str] = (),
    relevance_level: int = 1,
    significance_level: float = 0.01,
    equivalence_margin: float = 0.005,
    query_groups: str | Path | None = None,
    by_group: bool | Literal["where_known"] = False,
    baselines: str | Iterable[str] = (),
    dataset: Dataset | None = None,
    split: str | None = None,
    answer_match: Literal["string", "regex"] = 'string',
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> Evaluation:
    """Score run files against judgements, as trec_eval does, and test the differences between them.

    Every judged query counts in the mean: one that a run lacks, or that has no relevant document, scores 0.
    answer@k is the share of questions with an answer in the top k, over the questions of a dataset that have answers.
    Judgements default to the dataset's, else to those of the dataset that the first run was searched in.

    Args:
        runs: A TREC run, plain or gzip; may be repeated. Or what a search returned, or scores by document by query; several in a list, or in a dict by label.
        qrels: Judgements: TREC or BEIR form, plain or gzip; else the dataset's. Or grades by document by query.
        metrics: One or several; default ndcg@10 mrr@10 recall@100.
        relevance_level: The lowest grade that binary metrics take as relevant (trec_eval -l).
        significance_level: A difference is marked where both corrected p are below this.
        equivalence_margin: Systems are equivalent where their means surely differ by less than this.
        query_groups: The same with groups from a file: a query's id, a tab and its group per line.
        by_group: Queries come in the dataset's groups (`where_known`: if it has any), which are drawn at random.
        baselines: Compare with this run only (its file's name); default: all pairs.
        dataset: For answer@k, and a report's texts: beir:FOLDER, dpr:FOLDER, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        split: The queries' split. Default: test, or the only one of a dataset in memory.
        answer_match: Answers are words, or regular expressions.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: a metric or a baseline is unknown, a level is none, or there are no judgements.
        DataError: a file has a mistake.
    """


def fuse(
    runs: Runs,
    method: Literal["zip", "weighted-sum", "reciprocal-rank", "max", "mnz", "wsum"] = 'weighted-sum',
    *,
    weights: Mapping[str, float] = {},
    missing_scores: Literal["lowest", "zero"] = 'lowest',
    constant: int = 60,
    norm: Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"] | None = None,
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
) -> RankedRun:
    """Fuse several runs into one: by sums of scores or ranks, by turns (zip), or by one of ranx's methods.

    Args:
        runs: A TREC run, plain or gzip; may be repeated. Or what a search returned, or scores by document by query; several in a list, or in a dict by label.
        method: zip, by turns, first run first; weighted-sum, of scores; reciprocal-rank; ranx's max, mnz, wsum.
        weights: A run's weight, by its label; default 1.
        missing_scores: Of weighted-sum: what a document scores in a run that lacks it, that run's lowest or 0.
        constant: The constant of reciprocal-rank.
        norm: Of ranx's methods: min-max (the default), none, zmuv, ...
        depth: How many documents are kept for each query.
        tune_runs: Runs of other queries to tune on, one for each fused run, in their order. Or what a search returned, or scores by document by query; several in a list, or in a dict by label.
        qrels: The judgements of the queries to tune on. Or grades by document by query.
        metric: The metric to tune on.
        relevance_level: The lowest grade that binary metrics take as relevant (trec_eval -l).
        grid: Values to try, in every combination: of a run's weight, or `constant`; default: all weights in tenths that sum to 1.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: the method has no such number, or a label is unknown.
        DataError: a run has a mistake, or is tuned on the queries that are fused.
    """


def index(
    dataset: Dataset | None = None,
    backend: str | Mapping[str, Any] = 'bm25',
    *,
    vectors: str | Path | BuiltIndex | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> BuiltIndex:
    """Index the texts of a corpus, or a model's vectors of them; Pyserini's searchers open most of these.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        backend: The kind of index; `hardneg plugins list indexes` shows them.
        vectors: For an index over vectors or weights: the folder they are in. Or what `encode` returned.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: the backend is built from the other of the two, or from something else than the folder holds.
    """


def mine(
    dataset: Dataset,
    model: Model | None = None,
    *,
    run: AnyRun | None = None,
    index: str | Path | BuiltIndex | None = None,
    query_vectors: str | Path | None = None,
    query_ids: str | Path | None = None,
    miner: str | Mapping[str, Any] = 'topk',
    filters: Sequence[str | Mapping[str, Any]] = (),
    split: str | None = None,
    depth: int = 210,
    also_qrels: str | Path | Sequence[str | Path] = (),
    filter_by: AnyRun | None = None,
    seed: int = 42,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    progress: bool | Progress = False,
) -> MinedNegatives:
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: repeating it, or writing another form, is quick.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        model: A folder, a hub id, or packaged:all-MiniLM-L6-v2. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        run: Select from this TREC run instead of a model's search. Or what a search returned, or scores by document by query.
        index: With vectors of queries: a dense index folder, in place of a model. Or what `encode` returned.
        query_vectors: The queries' vectors: Parquet, JSON Lines, or a .npy array with their ids.
        query_ids: The ids of the vectors of a .npy array, one a line.
        miner: A miner; `hardneg plugins list` shows them.
        filters: Leave candidates out before the miner selects, one after another; a name, or {name: NAME, ...}.
        split: The queries' split. Default: train, or the only one of a dataset in memory.
        depth: How many documents are ranked for each query.
        also_qrels: Judgements whose positives count beside the dataset's, such as a reader's marks.
        filter_by: With a run: a TREC run whose scores the miner filters by, such as a reranker's. Or what a search returned, or scores by document by query.
        seed: For miners that draw.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: arguments do not go together.
        RecipeError: the miner has no such option, or another mistake in what was asked.
        DataError: the dataset or the run has a mistake.
    """


def recommend(
    dataset: Dataset,
    model: Model = 'packaged:all-MiniLM-L6-v2',
    *,
    goal: Goal | None = None,
    reranker: str | Mapping[str, Any] | None = None,
    split: str | None = None,
    depth: int = 200,
    train: int = 400,
    train_options: Mapping[str, Any] = {},
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> RecommendedNegatives:
    """Choose how to train for a collection by short trainings, show why, and write a recipe that trains so.

    In-batch negatives alone, the first documents of the model's lists, and what a rule chooses by its ranks of the
    positives are each trained at three learning rates, and compared on the dev queries with the model as shipped and
    with BM25. Some positives are hidden, to count how many each miner wrongly takes.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        model: A folder, a hub id, or packaged:all-MiniLM-L6-v2. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        goal: What is to be good: top (the first documents) or recall. Both are answered, the recipe is for the top.
        reranker: A second model, whose scores filters also use: cross-encoder:FOLDER or cross-encoder:HUB-ID.
        split: The queries to choose on; never the test queries. Default: dev, or the only one of a dataset in memory.
        depth: How many documents to retrieve for each query: the largest depth tried.
        train: Steps of each training; 0 trains nothing, and the answer is a guess.
        train_options: A training option, such as learning_rate=1e-4.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: the depth is too small, there is no such goal, or the split is the one that tests are on.
        RecipeError: the reranker or training has no such option, or the split has no queries.
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
) -> RankedRun:
    """Score the best documents of a run anew, query and document together.

    Scores are kept by content in the user's cache: repeating or deepening a run is quick.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        run: The TREC run to take the documents from, plain or gzip. Or what a search returned, or scores by document by query.
        reranker: A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID.
        split: The queries' split. Default: test, or the only one of a dataset in memory.
        depth: How many documents of each query are scored, the best ones.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        RecipeError: there is no such reranker, or it has no such option.
        DataError: the run has a mistake, or none of its queries is in the split.
    """


def search(
    dataset: Dataset | None = None,
    model: Model | None = None,
    *,
    backend: str | Mapping[str, Any] | None = None,
    index: str | Path | BuiltIndex | None = None,
    query_vectors: str | Path | None = None,
    query_ids: str | Path | None = None,
    split: str | None = None,
    depth: int = 100,
    candidates: str | Mapping[str, Any] | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> RankedRun:
    """Search a corpus for the queries of one split and write a TREC run; or search an index with query vectors.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        model: A folder, a hub id, or packaged:all-MiniLM-L6-v2. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        backend: An index over texts instead of a model, such as bm25.
        index: With vectors of queries: a dense index folder, in place of a model. Or what `encode` returned.
        query_vectors: The queries' vectors: Parquet, JSON Lines, or a .npy array with their ids.
        query_ids: The ids of the vectors of a .npy array, one a line.
        split: The queries' split. Default: test, or the only one of a dataset in memory.
        depth: How many documents are ranked for each query.
        candidates: An index over texts, such as bm25: rank only its best documents.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        UsageError: both a model and a backend, or none.
    """


def train(
    dataset: Dataset,
    model: Model,
    *,
    miner: str | Mapping[str, Any] = 'topk',
    loss: str | Mapping[str, Any] = 'star',
    options: Mapping[str, Any] = {},
    split: str | None = None,
    depth: int = 210,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
) -> TrainedModel:
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        model: A folder, a hub id, or packaged:all-MiniLM-L6-v2. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        miner: A miner; `hardneg plugins list` shows them.
        loss: A loss; `hardneg plugins list` shows them.
        options: A training option: max_steps=200 (default: one epoch), batch_size (32), learning_rate (by the kind of model) ...
        split: The queries' split. Default: train, or the only one of a dataset in memory.
        depth: How many documents are ranked for each query.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.

    Raises:
        RecipeError: the miner, the loss or training has no such option.
    """


def write_queries(
    dataset: Dataset,
    writers: Sequence[str | Mapping[str, Any]],
    *,
    per_passage: int = 1,
    passages: int | None = None,
    dev_share: float = 0.1,
    test_share: float = 0.1,
    split_by: Literal["group", "passage"] = 'group',
    round_trip: Model | None = None,
    first_k: int = 20,
    reranker: str | Mapping[str, Any] | None = None,
    seed: int = 42,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    progress: bool | Progress = False,
) -> WrittenQueries:
    """Write queries from the passages of a collection alone, to train a retriever with and to measure it by.

    The result is a folder in BEIR's form: the passages as their queries leave them, queries, and qrels by split.

    With a model for the round trip, a training query stays if its passage is among the first k that the model finds;
    with a reranker too, among the first k after reranking.

    Args:
        dataset: beir:FOLDER, documents:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name. Or a folder, a `datasets.Dataset`, by split or alone, or a dict of corpus, queries and qrels.
        writers: Writers of queries; one of them, drawn, writes for a passage; a name, or {name: NAME, ...}.
        per_passage: The most queries of a passage.
        passages: Write for so many passages, drawn; by default for all.
        dev_share: The part of the documents whose queries are split dev.
        test_share: The part of the documents whose queries are split test.
        split_by: What stays together in one split: a document's passages, or each passage alone.
        round_trip: A model that must find a training query's passage again. Or what a training returned, or a live `SentenceTransformer`, `SparseEncoder` or `MultiVectorEncoder`.
        first_k: A relevant passage must be among so many.
        reranker: A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID.
        seed: For writers that draw, and for the splits.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        progress: Whether to show bars, or what shows them.

    Raises:
        RecipeError: a writer has no such option, or another mistake in what was asked.
        DataError: no query was written, or a split has none.
    """


def analyze(
    name: str,
    *,
    qrels: AnyQrels | None = None,
    queries: str | Path | Mapping[str, Any] | None = None,
    corpus: str | Path | Mapping[str, Any] | None = None,
    withheld: AnyQrels | None = None,
    relevance_level: int = 1,
    run_folder: str | Path | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    device: str | None = None,
    engine: str | Mapping[str, Any] = 'local',
    seed: int = 42,
    progress: bool | Progress = False,
    **fields: Any,
) -> AnalysisResult:
    """Runs an analysis on results of functions, files, or a finished run folder.

    Args:
        name: as `hardneg analyze --help` lists it.
        qrels: Judgements: TREC or BEIR form, plain or gzip. Or grades by document by query.
        queries: Queries: BEIR's queries.jsonl, id and text by tab, or TREC topics. Or texts by id.
        corpus: BEIR's corpus.jsonl, for documents' texts. Or texts by id.
        withheld: Judgements that the filters do not know. Or grades by document by query.
        relevance_level: The lowest grade that binary metrics take as relevant (trec_eval -l).
        run_folder: The folder of a finished recipe.
        settings: Set any value, such as model.document_length=256.
        store: The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.
        device: cpu, cuda, cuda:1, mps; default: the best available.
        engine: Where the blocks of encode, search, mine and rerank are computed; `hardneg plugins list engines` shows them.
        seed: The seed of random draws.
        progress: Whether to show bars, or what shows them.
        fields: those of the analysis by their names in a recipe, such as `runs={"dense": run, "bm25": path}`.

    Raises:
        PluginError: there is no such analysis.
        UsageError: it has no such field, or one is missing.
    """


def diagnose(
    folder: str | Path,
    store: str | Path | None = None,
) -> Diagnosis:
    """Checks why the training of a finished run did not help, or made things worse; nothing is written.

    Args:
        folder: the run folder of a finished recipe.
        store: where its artifacts are; by default the usual store.

    Raises:
        DataError: it is no run folder, or its lock file is damaged.
        RecipeError: the recipe is not one of this hardneg's.
    """


def start(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    model: str | Path | Any | None = None,
    glob: str | None = None,
    run: bool = False,
    overwrite: bool = False,
    store: str | Path | None = None,
    device: str | None = None,
    progress: bool | Progress = False,
) -> Started:
    """Writes a recipe that fits what a folder holds: documents alone, queries beside them, or judgements too.

    Args:
        folder: documents of any form that `documents` reads, or a collection with or without judgements.
        output: the recipe to write; by default NAME.yaml in the working folder, NAME being the folder's.
        model: where training begins, as for `train`; by default a static table, `packaged:wordllama`.
        glob: which documents are read, such as `guide/**/*.md`; by default all.
        run: run it too, into runs/NAME; which negatives to train with is measured first, where judgements allow it.
        overwrite: replace a file of that name that is not this function's.
        store: the artifact store, by default the usual one.
        device: such as cpu or cuda; by default the best available.
        progress: whether to show bars, or what shows them.

    Raises:
        DataError: nothing in the folder can be read, or nothing can be measured by its judgements.
        UsageError: the recipe would be written into the folder, or over another file; or a glob for a collection whose
            files have names of their own.
    """
