"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# fmt: off
if TYPE_CHECKING:
    from hardneg.analysis.base import Analysis, Runs
    from hardneg.analysis.inputs import AnalysisInputs, Files, System
    from hardneg.analysis.overlap import negatives_overlap, run_overlap
    from hardneg.api.workplace import usual_store
    from hardneg.batches.batch_order import BatchOrder, TrainingQueries
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.open.loading import positions as most_positions
    from hardneg.encoders.open.model_files import check_files as check_model_files
    from hardneg.encoders.open.model_files import load_options as weight_options
    from hardneg.encoders.open.model_files import read_json
    from hardneg.encoders.open.resolved import ResolvedModel, load_encoder, model_content
    from hardneg.encoders.open.resolved import opening as opening_model
    from hardneg.encoders.open.save import forget_last_call
    from hardneg.encoders.open.save import written_whole as writing_model
    from hardneg.encoders.open.source import locate as locate_model
    from hardneg.encoders.protocol import (
        EncodeOptions,
        EncoderFamily,
        Form,
        StoredRows,
        StoreWriter,
        TextEncoder,
        TextWindows,
    )
    from hardneg.encoders.representation import Representation
    from hardneg.encoders.spec import FullSpec, ModelSpec, Side, whole_prompts
    from hardneg.encoders.speed.fastest import takes_bf16
    from hardneg.encoders.speed.fastest import usual_budget as usual_tokens_per_batch
    from hardneg.encoders.speed.passes import one_ahead
    from hardneg.encoders.tokens.tokens import Tokens, token_batches
    from hardneg.encoders.towers import evaluating
    from hardneg.evaluation.metrics import Scores, evaluate, means
    from hardneg.evaluation.metrics_json import Measured, read_metrics, write_metrics
    from hardneg.evaluation.significance import Comparison, compare_all, holm
    from hardneg.evaluation.two_level import spread_over_collections
    from hardneg.fields import (
        FREE,
        LATER,
        MEASURED,
        InputFile,
        MetricName,
        Name,
        Option,
        Reference,
        Setting,
        Trait,
        has_answers,
        marked_references,
        parse_model,
        without_problems,
    )
    from hardneg.formats.answer_matching import PassageAnswers, answer_spans
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.id_pairs import Exclusion, HasExcluded
    from hardneg.formats.negatives import drop_batches, read_negatives, write_negatives
    from hardneg.formats.negatives import recorded as recording_drops
    from hardneg.formats.qrels import positives as positives_by_query
    from hardneg.formats.runs import lists_in_order, lists_side_by_side, read_run, stream_run, write_run
    from hardneg.formats.segments import Segments
    from hardneg.formats.source_files import HasParts
    from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter, is_complete
    from hardneg.formats.vectors.sparse_store import SparseWriter
    from hardneg.formats.vectors.token_store import TokenWriter
    from hardneg.indexes.backends.compressed import CompressedSearcher
    from hardneg.indexes.backends.product import OpqPq
    from hardneg.indexes.exact_ranks import counts_above, pair_scores
    from hardneg.indexes.kernels.checks import vector_blocks
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.indexes.kernels.faiss.compression import encode_blocks, load_faiss
    from hardneg.indexes.kernels.faiss.compression import make_room as reserve_vectors
    from hardneg.indexes.kernels.faiss.compression import save as save_index
    from hardneg.indexes.kernels.faiss.compression import threads as faiss_threads
    from hardneg.indexes.kernels.lucene.java import start_java
    from hardneg.indexes.truncated import search_truncated
    from hardneg.mining.miners.selection import RULES as FILTER_RULES
    from hardneg.recipe.laid_indexes import LaidIndex, laid_indexes
    from hardneg.recipe.language import recipe_tree
    from hardneg.recipe.opened_index import OpenedIndex
    from hardneg.records.errors import (
        ArtifactError,
        DataError,
        HardnegError,
        MissingDependency,
        ModelError,
        PluginError,
        RecipeError,
        TrainingError,
        UsageError,
    )
    from hardneg.records.layout import ANSWERS, DROPPED, HISTORY, METRICS, MODEL_FOLDER, NEGATIVES, QUERIES, RUN
    from hardneg.records.types import (
        Answers,
        Candidates,
        Collection,
        Document,
        Drops,
        Encoded,
        EncodedBatch,
        HasAnswers,
        HasGroups,
        HasWithheld,
        Hits,
        Judgement,
        Lookup,
        Membership,
        Negatives,
        PluginSetting,
        Query,
        RankedList,
        ScoreBatch,
        SparseRows,
        TokenVectors,
        Written,
    )
    from hardneg.records.wording import suggestion
    from hardneg.registry.plugins import configure, plugin_errors
    from hardneg.registry.protocols import (
        DatasetLoader,
        DenseSearcher,
        EstimatedBackend,
        EstimatedWriter,
        FilterTexts,
        IndexBackend,
        Loss,
        NegativeFilter,
        NegativeMiner,
        ProductSearcher,
        QueryWriter,
        Regularizer,
        Reranker,
        RowLookup,
        Searcher,
        StageBlocks,
        StoredSearcher,
        TrainableReranker,
        WriterCost,
    )
    from hardneg.report.content import estimates
    from hardneg.report.curve import measurements
    from hardneg.report.figure import COLOURS, bar_width, bars, figure, lines, plain_axes
    from hardneg.report.numbers import bounds as format_interval
    from hardneg.report.numbers import number as format_score
    from hardneg.report.numbers import p_value as format_p_value
    from hardneg.report.numbers import signed as format_difference
    from hardneg.report.table import Section, Table
    from hardneg.rerankers.kept_scores import CachedScorer, CachedScores
    from hardneg.rerankers.pair_scoring import PairScorer, best_device
    from hardneg.runtime.distributed import World, gather, settle_by, world
    from hardneg.runtime.model_server import Endpoint, ModelServer
    from hardneg.runtime.model_server import check_address as check_server_address
    from hardneg.runtime.model_server import key_of as server_key
    from hardneg.runtime.progress import Progress, Silent, Task
    from hardneg.runtime.seeding import SEED, generator
    from hardneg.store.artifacts import CHOICES, KEPT, MANIFEST, SCRATCH, Store
    from hardneg.store.atomic_write import link_file, replace_text, replacing
    from hardneg.store.choices import CHOICE, cache_folder
    from hardneg.store.digest import digest, file_digest
    from hardneg.training.batches import own_share
    from hardneg.training.examples import Examples, SampledBatch, TrainingData
    from hardneg.training.loop import learn
    from hardneg.training.method import ExampleTraining
    from hardneg.training.options import LearningOptions
    from hardneg.training.options import again as option_again
    from hardneg.verbs.shared.context import ArtifactInput, Engine, Facts, StageContext
    from hardneg.verbs.shared.inputs import open_collection, open_queries, own_queries
    from hardneg.verbs.shared.stage_spec import PAIR_TOKENS, RecipeView, Row, RunSpec, Sizes, StageSpec, source_of
    from hardneg.verbs.shared.training_options import Judging, of_the_run

    # isort: split
    from hardneg.api.adhoc_recipe import checked_tree
    from hardneg.api.dataset_argument import named_dataset
    from hardneg.api.evaluation import Evaluation
    from hardneg.api.run_argument import run_file
    from hardneg.api.workplace import Workplace
    from hardneg.cli.console import bars as progress_bars
    from hardneg.cli.console import say
    from hardneg.cli.options import flags_named
    from hardneg.cli.planned_work import plugin_options, store_outputs
    from hardneg.doors.pyserini.openings import QuerySide, opening, openings
    from hardneg.encoders.open.model_files import module_folders
    from hardneg.encoders.open.resolved import FolderFamily
    from hardneg.encoders.open.resolved import resolve as resolve_model
    from hardneg.formats.export.forms import WriteOptions, write_form
    from hardneg.formats.qrels import read_qrels, write_qrels
    from hardneg.indexes.kernels.candidate_scoring import rank_candidates
    from hardneg.indexes.open_store import open_store
    from hardneg.recipe.load import check_recipe
    from hardneg.recipe.plan import make_plan
    from hardneg.recipe.run_folder import artifacts_of, read_lock
    from hardneg.records.errors import HubError
    from hardneg.records.private_paths import dataset_name, without_paths
    from hardneg.records.terms import term_spans, terms
    from hardneg.store.identity import plugin_identity
    from hardneg.store.replaced_files import Target
# fmt: on

_HOMES = {
    "analysis.base": "Analysis Runs",
    "analysis.inputs": "AnalysisInputs Files System",
    "analysis.overlap": "negatives_overlap run_overlap",
    "api.workplace": "Workplace usual_store",
    "batches.batch_order": "BatchOrder TrainingQueries",
    "encoders.encoder": "Encoder",
    "encoders.open.loading": "most_positions=positions",
    "encoders.open.model_files": "module_folders check_model_files=check_files read_json weight_options=load_options",
    "encoders.open.resolved": (
        "FolderFamily ResolvedModel load_encoder model_content opening_model=opening resolve_model=resolve"
    ),
    "encoders.open.save": "forget_last_call writing_model=written_whole",
    "encoders.open.source": "locate_model=locate",
    "encoders.protocol": "EncodeOptions EncoderFamily Form StoreWriter StoredRows TextEncoder TextWindows",
    "encoders.representation": "Representation",
    "encoders.spec": "FullSpec ModelSpec Side whole_prompts",
    "encoders.speed.fastest": "takes_bf16 usual_tokens_per_batch=usual_budget",
    "encoders.speed.passes": "one_ahead",
    "encoders.tokens.tokens": "Tokens token_batches",
    "encoders.towers": "evaluating",
    "evaluation.metrics": "Scores evaluate means",
    "evaluation.metrics_json": "Measured read_metrics write_metrics",
    "evaluation.significance": "Comparison compare_all holm",
    "evaluation.two_level": "spread_over_collections",
    "fields": (
        "FREE InputFile LATER MEASURED MetricName Name Option Reference Setting Trait has_answers marked_references "
        "parse_model without_problems"
    ),
    "formats.answer_matching": "PassageAnswers answer_spans",
    "formats.collection": "StoredCollection",
    "formats.corpus": "Corpus",
    "formats.id_pairs": "Exclusion HasExcluded",
    "formats.negatives": "drop_batches read_negatives recording_drops=recorded write_negatives",
    "formats.qrels": "read_qrels write_qrels positives_by_query=positives",
    "formats.runs": "lists_in_order lists_side_by_side read_run stream_run write_run",
    "formats.segments": "Segments",
    "formats.source_files": "HasParts",
    "formats.vectors.flat_vectors": "FlatVectors FlatWriter is_complete",
    "formats.vectors.sparse_store": "SparseWriter",
    "formats.vectors.token_store": "TokenWriter",
    "indexes.backends.compressed": "CompressedSearcher",
    "indexes.backends.product": "OpqPq",
    "indexes.exact_ranks": "counts_above pair_scores",
    "indexes.kernels.checks": "vector_blocks",
    "indexes.kernels.exact.exact": "ExactOptions",
    "indexes.kernels.faiss.compression": (
        "encode_blocks faiss_threads=threads load_faiss reserve_vectors=make_room save_index=save"
    ),
    "indexes.kernels.lucene.java": "start_java",
    "indexes.truncated": "search_truncated",
    "mining.miners.selection": "FILTER_RULES=RULES",
    "recipe.laid_indexes": "LaidIndex laid_indexes",
    "recipe.language": "recipe_tree",
    "recipe.opened_index": "OpenedIndex",
    "records.errors": (
        "ArtifactError DataError HardnegError HubError MissingDependency ModelError PluginError RecipeError "
        "TrainingError UsageError"
    ),
    "records.layout": "ANSWERS DROPPED HISTORY METRICS MODEL_FOLDER NEGATIVES QUERIES RUN",
    "records.types": (
        "Answers Candidates Collection Document Drops Encoded EncodedBatch HasAnswers HasGroups HasWithheld Hits "
        "Judgement Lookup Membership Negatives PluginSetting Query RankedList ScoreBatch SparseRows TokenVectors "
        "Written"
    ),
    "records.wording": "suggestion",
    "registry.plugins": "configure plugin_errors",
    "registry.protocols": (
        "DatasetLoader DenseSearcher EstimatedBackend EstimatedWriter FilterTexts IndexBackend Loss NegativeFilter "
        "NegativeMiner ProductSearcher QueryWriter Regularizer Reranker RowLookup Searcher StageBlocks "
        "StoredSearcher TrainableReranker WriterCost"
    ),
    "report.content": "estimates",
    "report.curve": "measurements",
    "report.figure": "COLOURS bar_width bars figure lines plain_axes",
    "report.numbers": "format_difference=signed format_interval=bounds format_p_value=p_value format_score=number",
    "report.table": "Section Table",
    "rerankers.kept_scores": "CachedScorer CachedScores",
    "rerankers.pair_scoring": "PairScorer best_device",
    "runtime.distributed": "World gather settle_by world",
    "runtime.model_server": "Endpoint ModelServer check_server_address=check_address server_key=key_of",
    "runtime.progress": "Progress Silent Task",
    "runtime.seeding": "SEED generator",
    "store.artifacts": "CHOICES KEPT MANIFEST SCRATCH Store",
    "store.atomic_write": "link_file replace_text replacing",
    "store.choices": "CHOICE cache_folder",
    "store.digest": "digest file_digest",
    "training.batches": "own_share",
    "training.examples": "Examples SampledBatch TrainingData",
    "training.loop": "learn",
    "training.method": "ExampleTraining",
    "training.options": "option_again=again LearningOptions",
    "verbs.shared.context": "ArtifactInput Engine Facts StageContext",
    "verbs.shared.inputs": "open_collection open_queries own_queries",
    "verbs.shared.stage_spec": "PAIR_TOKENS RecipeView Row RunSpec Sizes StageSpec source_of",
    "verbs.shared.training_options": "Judging of_the_run",
    "api.adhoc_recipe": "checked_tree",
    "api.dataset_argument": "named_dataset",
    "api.evaluation": "Evaluation",
    "api.run_argument": "run_file",
    "cli.console": "progress_bars=bars say",
    "cli.options": "flags_named",
    "cli.planned_work": "plugin_options store_outputs",
    "doors.pyserini.openings": "QuerySide opening openings",
    "formats.export.forms": "WriteOptions write_form",
    "indexes.kernels.candidate_scoring": "rank_candidates",
    "indexes.open_store": "open_store",
    "recipe.load": "check_recipe",
    "recipe.plan": "make_plan",
    "recipe.run_folder": "artifacts_of read_lock",
    "records.private_paths": "dataset_name without_paths",
    "records.terms": "term_spans terms",
    "store.identity": "plugin_identity",
    "store.replaced_files": "Target",
}
"""The names of each module; one that is called otherwise there is NAME=CALLED."""
_PAIRS = [(home, *each.partition("=")[::2]) for home, names in _HOMES.items() for each in names.split()]
_NAMES = {name: (home, called or name) for home, name, called in _PAIRS}
__all__ = [  # noqa: RUF022
    "ANSWERS", "Analysis", "AnalysisInputs", "Answers", "ArtifactError", "ArtifactInput", "BatchOrder", "CHOICE",
    "CHOICES", "CachedScorer", "CachedScores", "Candidates", "Collection", "Comparison", "CompressedSearcher",
    "Corpus", "DROPPED", "DataError", "DatasetLoader", "DenseSearcher", "Document", "Drops", "EncodeOptions",
    "Encoded", "EncodedBatch", "Encoder", "EncoderFamily", "Endpoint", "Engine", "EstimatedBackend",
    "EstimatedWriter", "ExactOptions", "ExampleTraining", "Examples", "Exclusion", "FREE", "Facts", "Files",
    "FilterTexts", "FlatVectors", "FlatWriter", "Form", "FullSpec", "HISTORY", "HardnegError", "HasAnswers",
    "HasExcluded", "HasGroups", "HasParts", "HasWithheld", "Hits", "IndexBackend", "InputFile", "Judgement",
    "Judging", "KEPT", "LATER", "LaidIndex", "LearningOptions", "Lookup", "Loss", "MANIFEST", "MEASURED", "METRICS",
    "MODEL_FOLDER", "Measured", "Membership", "MissingDependency", "ModelError", "ModelServer", "ModelSpec",
    "NEGATIVES", "Name", "NegativeFilter", "NegativeMiner", "Negatives", "OpenedIndex", "OpqPq", "Option",
    "PAIR_TOKENS", "PairScorer", "PassageAnswers", "PluginError", "PluginSetting", "ProductSearcher", "Progress",
    "QUERIES", "Query", "QueryWriter", "RUN", "RankedList", "RecipeError", "RecipeView", "Reference", "Regularizer",
    "Representation", "Reranker", "ResolvedModel", "Row", "RowLookup", "RunSpec", "Runs", "SCRATCH", "SEED",
    "SampledBatch", "ScoreBatch", "Scores", "Searcher", "Section", "Segments", "Setting", "Side", "Silent", "Sizes",
    "SparseRows", "SparseWriter", "StageBlocks", "StageContext", "StageSpec", "Store", "StoreWriter",
    "StoredCollection", "StoredRows", "StoredSearcher", "Table", "Task", "TextEncoder", "TextWindows", "TokenVectors",
    "TokenWriter", "Tokens", "TrainableReranker", "TrainingData", "TrainingError", "TrainingQueries", "Trait",
    "UsageError", "World", "WriterCost", "Written", "answer_spans", "bar_width", "bars", "best_device",
    "cache_folder", "check_model_files", "check_server_address", "compare_all", "configure", "digest",
    "encode_blocks", "estimates", "evaluating", "faiss_threads", "figure", "file_digest", "forget_last_call",
    "format_difference", "format_interval", "format_p_value", "format_score", "gather", "generator", "has_answers",
    "is_complete", "laid_indexes", "learn", "link_file", "lists_in_order", "lists_side_by_side", "load_encoder",
    "load_faiss", "locate_model", "marked_references", "means", "model_content", "most_positions", "of_the_run",
    "one_ahead", "open_collection", "open_queries", "opening_model", "option_again", "own_queries", "own_share",
    "parse_model", "plain_axes", "plugin_errors", "positives_by_query", "read_json", "read_metrics", "read_negatives",
    "read_run", "recipe_tree", "recording_drops", "replace_text", "replacing", "reserve_vectors", "save_index",
    "server_key", "settle_by", "source_of", "start_java", "stream_run", "takes_bf16", "token_batches", "usual_store",
    "usual_tokens_per_batch", "vector_blocks", "weight_options", "whole_prompts", "without_problems", "world",
    "write_metrics", "write_negatives", "write_run", "writing_model",
    "COLOURS", "FILTER_RULES", "MetricName", "System", "counts_above", "drop_batches", "evaluate", "holm", "lines",
    "measurements", "negatives_overlap", "pair_scores", "run_overlap", "search_truncated", "spread_over_collections",
    "suggestion",
    "checked_tree", "named_dataset", "Evaluation", "run_file", "Workplace", "progress_bars", "say", "flags_named",
    "plugin_options", "store_outputs", "QuerySide", "opening", "openings", "module_folders", "FolderFamily",
    "resolve_model", "WriteOptions", "write_form", "read_qrels", "write_qrels", "rank_candidates", "open_store",
    "check_recipe", "make_plan", "artifacts_of", "read_lock", "HubError", "dataset_name", "without_paths",
    "term_spans", "terms", "plugin_identity", "Target",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = _NAMES[name]
    return getattr(import_module(f"hardneg.{home}"), called)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
