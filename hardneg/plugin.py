"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardneg import type_checkers_imports

# fmt: off
if TYPE_CHECKING:
    from hardneg.analysis import overlap
    from hardneg.analysis.base import Analysis, Runs
    from hardneg.analysis.inputs import AnalysisInputs, System
    from hardneg.cli.adaptor import flags_named, plugin_options
    from hardneg.cli.commands import Command
    from hardneg.cli.console import bars as progress_bars
    from hardneg.cli.console import say
    from hardneg.cli.planned_work import store_outputs
    from hardneg.datasets import hub_tables
    from hardneg.datasets import pydocs as installed_docs
    from hardneg.datasets.held_out import half
    from hardneg.encoders import towers
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.open import loading, model_files
    from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel, load_encoder, model_content
    from hardneg.encoders.open.resolved import opening as opening_model
    from hardneg.encoders.open.resolved import resolve as resolve_model
    from hardneg.encoders.open.save import forget_last_call
    from hardneg.encoders.open.save import written_whole as writing_model
    from hardneg.encoders.open.source import locate as locate_model
    from hardneg.encoders.passes import one_ahead
    from hardneg.encoders.passes import usual_budget as usual_tokens_per_batch
    from hardneg.encoders.precision import takes_bf16
    from hardneg.encoders.protocol import EncodeOptions, Form, StoredRows, StoreWriter, TextWindows
    from hardneg.encoders.representation import Representation
    from hardneg.encoders.spec import FullSpec, ModelSpec, Side, spec_from, whole_prompts
    from hardneg.encoders.tokens.tokens import Tokens, token_batches
    from hardneg.evaluation import intervals, significance
    from hardneg.evaluation.metrics import Scores, evaluate, means
    from hardneg.evaluation.metrics_json import Measured, read_metrics, write_metrics
    from hardneg.evaluation.two_level import spread_over_collections
    from hardneg.fields import (
        FREE,
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
    from hardneg.formats import hash_index, id_pairs, python_code, queries, source_files, text_lines
    from hardneg.formats import negatives as negatives_files
    from hardneg.formats import qrels as qrels_files
    from hardneg.formats import runs as run_files
    from hardneg.formats.answer_matching import PassageAnswers, answer_spans
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.doc_ids import DocIds
    from hardneg.formats.export import catalogue as forms
    from hardneg.formats.negatives import join_negatives
    from hardneg.formats.runs import stream_run, write_run
    from hardneg.formats.segments import Segments
    from hardneg.formats.vectors import number_file, shards
    from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
    from hardneg.formats.vectors.rows_writer import RowsWriter
    from hardneg.functions import arguments, given
    from hardneg.functions.evaluate import Evaluation
    from hardneg.functions.mine import training_stage
    from hardneg.functions.session import Session, checked_tree, usual_store
    from hardneg.indexes import exact_ranks
    from hardneg.indexes.backends.compressed import CompressedSearcher
    from hardneg.indexes.kernels import checks as index_checks
    from hardneg.indexes.kernels.candidate_scoring import rank_candidates
    from hardneg.indexes.kernels.exact import top_k
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.indexes.kernels.faiss import compression
    from hardneg.indexes.kernels.lucene import lucene_search
    from hardneg.indexes.kernels.lucene.java import start_java
    from hardneg.indexes.open_store import open_store
    from hardneg.integrations.pyserini import QuerySide, opening, openings
    from hardneg.mining.lists_of_file import ListsOfFile
    from hardneg.mining.miners.selection import RULES as FILTER_RULES
    from hardneg.protocols import FilterTexts, QueryWriter, Reranker, RowLookup, Searcher, TrainableReranker
    from hardneg.recipes.laid_indexes import LaidIndex, OpenedIndex, laid_indexes
    from hardneg.recipes.language import recipe_tree
    from hardneg.recipes.load import check_recipe
    from hardneg.recipes.plan import make_plan
    from hardneg.recipes.run_folder import artifacts_of, read_lock
    from hardneg.recipes.yaml_load import as_yaml as recipe_text
    from hardneg.records import layout, wording
    from hardneg.records.errors import (
        ArtifactError,
        DataError,
        HardnegError,
        HubError,
        MissingDependency,
        ModelError,
        PluginError,
        TrainingError,
        UsageError,
    )
    from hardneg.records.layout import RUN
    from hardneg.records.private_paths import dataset_name, without_paths
    from hardneg.records.terms import term_spans, terms
    from hardneg.records.types import (
        Answers,
        Candidates,
        Document,
        Drops,
        EncodedBatch,
        EncodedRows,
        HasAnswers,
        HasGroups,
        Hits,
        Judgement,
        Lookup,
        Membership,
        Negatives,
        PluginSetting,
        Query,
        RankedList,
        ScoreBatch,
        Written,
    )
    from hardneg.registry import configure, plugin_errors
    from hardneg.report import figure as figures
    from hardneg.report import numbers
    from hardneg.report.content import estimates
    from hardneg.report.curve import measurements
    from hardneg.report.table import Section, Table
    from hardneg.rerankers.pair_scoring import PairScorer, best_device
    from hardneg.runtime import model_server
    from hardneg.runtime.devices import has_bf16_units
    from hardneg.runtime.distributed import World, gather, settle_by, world
    from hardneg.runtime.progress import Progress, Silent, Task
    from hardneg.runtime.seeding import SEED, derive_seed, generator
    from hardneg.stages.shared.blocks import StageBlocks
    from hardneg.stages.shared.context import ArtifactInput, Facts, StageContext
    from hardneg.stages.shared.inputs import open_collection, open_queries, own_queries
    from hardneg.stages.shared.stage_spec import RecipeView, Row, RunSpec, Sizes, StageSpec, source_of
    from hardneg.stages.shared.train_config import ValidationOptions, of_the_run
    from hardneg.store import atomic_write
    from hardneg.store.artifacts import CHOICES, KEPT, MANIFEST, SCRATCH, Store
    from hardneg.store.blocks import BlockResult
    from hardneg.store.choices import CHOICE, cache_folder
    from hardneg.store.digest import digest, file_digest
    from hardneg.store.identity import plugin_identity
    from hardneg.store.replaced_files import Target
    from hardneg.training.batches import own_share
    from hardneg.training.examples import Examples, SampledBatch, TrainingData
    from hardneg.training.loop import learn
    from hardneg.training.options import LearningOptions
    from hardneg.training.options import again as option_again
    from hardneg.training.step import ExampleTraining
# fmt: on

_NAMES = type_checkers_imports(__name__)
__all__ = [  # noqa: RUF022
    "Analysis", "AnalysisInputs", "Answers", "ArtifactError", "ArtifactInput", "BlockResult", "CHOICE", "CHOICES",
    "Candidates", "Command", "CompressedSearcher", "Corpus", "DataError", "DocIds", "Document",
    "Drops", "EncodeOptions", "EncodedBatch", "EncodedRows", "Encoder", "Evaluation", "ExactOptions",
    "ExampleTraining", "Examples", "FILTER_RULES", "FREE", "Facts", "FilterTexts", "FlatVectors", "FlatWriter",
    "FolderFamily", "Form", "FullSpec", "HardnegError", "HasAnswers", "HasGroups", "Hits", "HubError", "InputFile",
    "Judgement", "KEPT", "LaidIndex", "LearningOptions", "ListsOfFile", "Lookup", "MANIFEST", "MEASURED", "Measured",
    "Membership", "MetricName", "MissingDependency", "ModelError", "ModelSpec", "Name", "Negatives", "OpenedIndex",
    "Option", "PairScorer", "PassageAnswers", "PluginError", "PluginSetting", "Progress", "Query",
    "QuerySide", "QueryWriter", "RUN", "RankedList", "RecipeView", "Reference", "Representation", "Reranker",
    "ResolvedModel", "Row", "RowLookup", "RowsWriter", "RunSpec", "Runs", "SCRATCH", "SEED", "SampledBatch",
    "ScoreBatch", "Scores", "Searcher", "Section", "Segments", "Setting", "Side", "Silent", "Sizes", "StageBlocks",
    "StageContext", "StageSpec", "Store", "StoreWriter", "StoredCollection", "StoredRows", "System", "Table",
    "Target", "Task", "TextWindows", "Tokens", "TrainableReranker", "TrainingData", "TrainingError", "Trait",
    "UsageError", "ValidationOptions", "Session", "World", "Written", "answer_spans",
    "arguments", "given", "artifacts_of", "atomic_write", "best_device", "cache_folder", "check_recipe",
    "checked_tree", "compression", "configure", "dataset_name", "derive_seed", "digest", "estimates", "evaluate",
    "exact_ranks", "figures", "file_digest", "flags_named", "forget_last_call", "forms", "gather", "generator",
    "half", "has_answers", "has_bf16_units", "hash_index", "hub_tables", "id_pairs", "index_checks", "installed_docs",
    "intervals", "join_negatives", "laid_indexes", "layout", "learn", "load_encoder", "loading",
    "locate_model", "lucene_search", "make_plan", "marked_references", "means", "measurements", "model_content",
    "model_files", "model_server", "negatives_files", "number_file", "numbers", "of_the_run",
    "one_ahead", "open_collection", "open_queries", "open_store", "opening", "opening_model", "openings",
    "option_again", "overlap", "own_queries", "own_share", "parse_model", "plugin_errors", "plugin_identity",
    "plugin_options", "progress_bars", "python_code", "qrels_files", "queries", "rank_candidates", "read_lock",
    "read_metrics", "recipe_text", "recipe_tree", "resolve_model", "run_files", "say",
    "settle_by", "shards", "significance", "source_files", "source_of", "spec_from", "spread_over_collections",
    "start_java", "store_outputs", "stream_run", "takes_bf16", "term_spans", "terms", "text_lines", "token_batches",
    "top_k", "towers", "training_stage", "usual_store", "usual_tokens_per_batch", "whole_prompts", "without_paths",
    "without_problems", "wording", "world", "write_metrics", "write_run", "writing_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = type_checkers_imports(__name__)[name]
    found = getattr(import_module(home), called, None)
    return import_module(f"{home}.{called}") if found is None else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
