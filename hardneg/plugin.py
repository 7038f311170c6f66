"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardneg import type_checkers_imports

# ruff: isort: skip_file
# fmt: off
if TYPE_CHECKING:
    from hardneg import fields, protocols
    from hardneg.analysis import overlap
    from hardneg.analysis.base import Analysis, Runs
    from hardneg.analysis.inputs import AnalysisInputs, System
    from hardneg.cli import adaptor, console as terminal, planned_work
    from hardneg.cli.commands import Command
    from hardneg.datasets import hub_tables, pydocs as installed_docs
    from hardneg.encoders import passes, protocol as encoding, spec as model_specs, towers
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.open import loading, model_files, resolved as resolving, save as model_saving
    from hardneg.encoders.open.resolved import load_encoder
    from hardneg.encoders.open.source import locate as locate_model
    from hardneg.encoders.precision import takes_bf16
    from hardneg.encoders.representation import Representation
    from hardneg.encoders.spec import spec_from
    from hardneg.encoders.tokens import tokens as token_files
    from hardneg.evaluation import intervals, metrics as measuring, metrics_json as metrics_files, significance
    from hardneg.evaluation.two_level import spread_over_collections
    from hardneg.formats import (
        answer_matching, hash_index, id_pairs, negatives as negatives_files, python_code, qrels as qrels_files,
        queries, runs as run_files, source_files, text_lines
    )
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.doc_ids import DocIds
    from hardneg.formats.export import catalogue as forms
    from hardneg.formats.segments import Segments
    from hardneg.formats.vectors import flat_vectors, number_file, shards
    from hardneg.formats.vectors.rows_writer import RowsWriter
    from hardneg.functions import arguments, given, session as sessions
    from hardneg.functions.evaluate import Evaluation
    from hardneg.functions.mine import training_stage
    from hardneg.indexes import exact_ranks
    from hardneg.indexes.backends.compressed import CompressedSearcher
    from hardneg.indexes.kernels import checks as index_checks
    from hardneg.indexes.kernels.candidate_scoring import rank_candidates
    from hardneg.indexes.kernels.exact import top_k
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.indexes.kernels.faiss import compression
    from hardneg.indexes.kernels.lucene import lucene_search
    from hardneg.indexes.kernels.lucene.java import start_java
    from hardneg.integrations import pyserini as pyserini_lines
    from hardneg.mining.lists_of_file import ListsOfFile
    from hardneg.mining.miners.selection import RULES as FILTER_RULES
    from hardneg.recipes import laid_indexes as run_indexes, run_folder as run_folders
    from hardneg.recipes.language import recipe_tree
    from hardneg.recipes.load import check_recipe
    from hardneg.recipes.plan import make_plan
    from hardneg.recipes.yaml_load import as_yaml as recipe_text
    from hardneg.records import errors, layout, private_paths, terms as word_terms, types as records, wording
    from hardneg.records.types import (
        Candidates, Document, Judgement, Negatives, PluginSetting, Query, RankedList, ScoreBatch
    )
    from hardneg.registry import configure, plugin_errors
    from hardneg.report import figure as figures, numbers
    from hardneg.report.content import estimates
    from hardneg.report.curve import measurements
    from hardneg.report.table import Section, Table
    from hardneg.rerankers import pair_scoring
    from hardneg.runtime import distributed, model_server, seeding
    from hardneg.runtime.devices import has_bf16_units
    from hardneg.runtime.progress import Progress, Silent, Task
    from hardneg.stages.shared import context as stage_context, inputs as stage_inputs, stage_spec, train_config
    from hardneg.stages.shared.blocks import StageBlocks
    from hardneg.store import artifacts as stores, atomic_write, choices as stored_choices, digest as digests
    from hardneg.store.blocks import BlockResult
    from hardneg.store.identity import plugin_identity
    from hardneg.store.replaced_files import Target
    from hardneg.training import examples as training_examples, options as training_options
    from hardneg.training.batches import own_share
    from hardneg.training.loop import learn
    from hardneg.training.step import ExampleTraining
# fmt: on

_NAMES = type_checkers_imports(__name__)
__all__ = [  # noqa: RUF022
    "adaptor", "Analysis", "AnalysisInputs", "answer_matching", "arguments", "atomic_write", "BlockResult",
    "Candidates", "check_recipe", "Command", "CompressedSearcher", "compression", "configure", "Corpus", "digests",
    "distributed", "DocIds", "Document", "Encoder", "encoding", "errors", "estimates", "Evaluation", "exact_ranks",
    "ExactOptions", "ExampleTraining", "fields", "figures", "FILTER_RULES", "flat_vectors", "forms", "given",
    "has_bf16_units", "hash_index", "hub_tables", "id_pairs", "index_checks", "installed_docs", "intervals",
    "Judgement", "layout", "learn", "ListsOfFile", "load_encoder", "loading", "locate_model", "lucene_search",
    "make_plan", "measurements", "measuring", "metrics_files", "model_files", "model_saving", "model_server",
    "model_specs", "Negatives", "negatives_files", "number_file", "numbers", "overlap", "own_share", "pair_scoring",
    "passes", "planned_work", "plugin_errors", "plugin_identity", "PluginSetting", "private_paths", "Progress",
    "protocols", "pyserini_lines", "python_code", "qrels_files", "queries", "Query", "rank_candidates", "RankedList",
    "recipe_text", "recipe_tree", "records", "Representation", "resolving", "RowsWriter", "run_files", "run_folders",
    "run_indexes", "Runs", "ScoreBatch", "Section", "seeding", "Segments", "sessions", "shards", "significance",
    "Silent", "source_files", "spec_from", "spread_over_collections", "stage_context", "stage_inputs", "stage_spec",
    "StageBlocks", "start_java", "stored_choices", "StoredCollection", "stores", "System", "Table", "takes_bf16",
    "Target", "Task", "terminal", "text_lines", "token_files", "top_k", "towers", "train_config", "training_examples",
    "training_options", "training_stage", "word_terms", "wording",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = type_checkers_imports(__name__)[name]
    found = getattr(import_module(home), called, None)
    return import_module(f"{home}.{called}") if found is None else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
