"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardneg import type_checkers_imports

# fmt: off
if TYPE_CHECKING:
    from hardneg.analysis import runs as overlap
    from hardneg.analysis.base import Analysis, Runs
    from hardneg.analysis.inputs import AnalysisInputs, System
    from hardneg.cli.commands import Command
    from hardneg.cli.console import bars as progress_bars
    from hardneg.cli.console import say
    from hardneg.cli.options import flags_named
    from hardneg.cli.planned_work import plugin_options, store_outputs
    from hardneg.datasets import hugging_face as hub_tables
    from hardneg.datasets import pydocs as installed_docs
    from hardneg.datasets.held_out import half
    from hardneg.encoders import passes, towers
    from hardneg.encoders.encoder import Encoder, Representation
    from hardneg.encoders.open import loading, model_files
    from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel, load_encoder, model_content
    from hardneg.encoders.open.resolved import opening as opening_model
    from hardneg.encoders.open.resolved import resolve as resolve_model
    from hardneg.encoders.protocol import EncodeOptions, Form, StoredRows, StoreWriter
    from hardneg.encoders.spec import FullSpec, ModelSpec, Side, spec_from, whole_prompts
    from hardneg.encoders.tokens import Tokens, token_batches
    from hardneg.evaluation import intervals, significance, two_level
    from hardneg.evaluation.metrics import Scores, evaluate, means
    from hardneg.evaluation.metrics_json import Measured, read_metrics, write_metrics
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
    from hardneg.formats import answer_matching, arrays, hash_index, queries, source_files, text_lines, texts
    from hardneg.formats import form_names as forms
    from hardneg.formats import negatives as negatives_files
    from hardneg.formats import qrels as qrels_files
    from hardneg.formats import runs as run_files
    from hardneg.formats import vectors as index_files
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.segments import Segments
    from hardneg.functions import argument_values, arguments
    from hardneg.functions.adhoc_recipe import checked_tree, training_stage
    from hardneg.functions.content_store import keep_result
    from hardneg.functions.dataset_argument import named_dataset
    from hardneg.functions.evaluation import Evaluation
    from hardneg.functions.run_argument import run_file
    from hardneg.functions.session import Session, usual_store
    from hardneg.indexes import exact_ranks
    from hardneg.indexes.backends import compressed as compression
    from hardneg.indexes.backends.compressed import CompressedSearcher
    from hardneg.indexes.kernels import checks as index_checks
    from hardneg.indexes.kernels import lucene as lucene_search
    from hardneg.indexes.kernels.candidate_scoring import rank_candidates
    from hardneg.indexes.kernels.exact import top_k
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.indexes.kernels.lucene import start_java
    from hardneg.indexes.open_store import open_store
    from hardneg.integrations.pyserini import QuerySide, opening, openings
    from hardneg.mining.listing import ListsOfFile
    from hardneg.mining.miners.selection import RULES as FILTER_RULES
    from hardneg.protocols import FilterTexts, QueryWriter, Reranker, RowLookup, Searcher, TrainableReranker
    from hardneg.recipes import artifacts_of, check_recipe, make_plan, read_lock, recipe_tree
    from hardneg.recipes import as_yaml as recipe_text
    from hardneg.recipes.laid_indexes import LaidIndex, OpenedIndex, laid_indexes
    from hardneg.records import RUN, EncodedRows, layout, wording
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
    from hardneg.records.text import term_spans, terms
    from hardneg.records.types import (
        Answers,
        Candidates,
        Document,
        Drops,
        EncodedBatch,
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
    from hardneg.report import table as numbers
    from hardneg.report.content import estimates
    from hardneg.report.figure import measurements
    from hardneg.report.table import Section, Table
    from hardneg.rerankers.network import PairScorer, best_device
    from hardneg.runtime import SEED, Progress, Silent, Task, derive_seed, generator, has_bf16_units, model_server
    from hardneg.runtime.distributed import World, gather, settle_by, world
    from hardneg.stages.base import (
        ArtifactInput,
        Facts,
        RecipeView,
        Row,
        RunSpec,
        Sizes,
        StageContext,
        StageSpec,
        source_of,
    )
    from hardneg.stages.blocks import StageBlocks
    from hardneg.stages.inputs import open_collection, open_queries, own_queries
    from hardneg.stages.training import ValidationOptions, of_the_run
    from hardneg.store import CHOICE, Target, atomic_write, cache_folder, digest, file_digest, plugin_identity
    from hardneg.store.artifacts import CHOICES, KEPT, MANIFEST, SCRATCH, Store
    from hardneg.store.blocks import BlockResult
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
    "Candidates", "Command", "CompressedSearcher", "Corpus", "DataError", "Document", "Drops", "EncodeOptions",
    "EncodedBatch", "EncodedRows", "Encoder", "Evaluation", "ExactOptions", "ExampleTraining", "Examples",
    "FILTER_RULES", "FREE", "Facts", "FilterTexts", "FolderFamily", "Form", "FullSpec", "HardnegError",
    "HasAnswers", "HasGroups", "Hits", "HubError", "InputFile", "Judgement", "KEPT", "LaidIndex", "LearningOptions",
    "ListsOfFile", "Lookup", "MANIFEST", "MEASURED", "Measured", "Membership", "MetricName", "MissingDependency",
    "ModelError", "ModelSpec", "Name", "Negatives", "OpenedIndex", "Option", "PairScorer", "PluginError",
    "PluginSetting", "Progress", "Query", "QuerySide", "QueryWriter", "RUN", "RankedList", "RecipeView",
    "Reference", "Representation", "Reranker", "ResolvedModel", "Row", "RowLookup", "RunSpec", "Runs", "SCRATCH",
    "SEED", "SampledBatch", "ScoreBatch", "Scores", "Searcher", "Section", "Segments", "Session", "Setting", "Side",
    "Silent", "Sizes", "StageBlocks", "StageContext", "StageSpec", "Store", "StoreWriter", "StoredCollection",
    "StoredRows", "System", "Table", "Target", "Task", "Tokens", "TrainableReranker", "TrainingData",
    "TrainingError", "Trait", "UsageError", "ValidationOptions", "World", "Written", "answer_matching",
    "argument_values", "arguments", "arrays", "artifacts_of", "atomic_write", "best_device", "cache_folder",
    "check_recipe", "checked_tree", "compression", "configure", "derive_seed", "digest", "estimates", "evaluate",
    "exact_ranks", "figures", "file_digest", "flags_named", "forms", "gather", "generator", "half", "has_answers",
    "has_bf16_units", "hash_index", "hub_tables", "index_checks", "index_files", "installed_docs", "intervals",
    "keep_result", "laid_indexes", "layout", "learn", "load_encoder", "loading", "lucene_search", "make_plan",
    "marked_references", "means", "measurements", "model_content", "model_files", "model_server", "named_dataset",
    "negatives_files", "numbers", "of_the_run", "open_collection", "open_queries", "open_store", "opening",
    "opening_model", "openings", "option_again", "overlap", "own_queries", "own_share", "parse_model", "passes",
    "plugin_errors", "plugin_identity", "plugin_options", "progress_bars", "qrels_files", "queries",
    "rank_candidates", "read_lock", "read_metrics", "recipe_text", "recipe_tree", "resolve_model", "run_file",
    "run_files", "say", "settle_by", "significance", "source_files", "source_of", "spec_from", "start_java",
    "store_outputs", "term_spans", "terms", "text_lines", "texts", "token_batches", "top_k", "towers",
    "training_stage", "two_level", "usual_store", "whole_prompts", "without_problems", "wording", "world",
    "write_metrics",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = type_checkers_imports(__name__)[name]
    found = getattr(import_module(home), called, None)
    return import_module(f"{home}.{called}") if found is None else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
