"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardneg import type_checkers_imports

# fmt: off
if TYPE_CHECKING:
    from hardneg import fields, protocols, recipes, records, registry, stages
    from hardneg.analysis import runs as overlap
    from hardneg.analysis.base import Analysis, AnalysisInputs, Runs, System
    from hardneg.cli import adaptor, planned_work
    from hardneg.cli import console as terminal
    from hardneg.cli.commands import Command
    from hardneg.datasets import hugging_face as hub_tables
    from hardneg.datasets import pydocs as installed_docs
    from hardneg.encoders import encoder as encoders
    from hardneg.encoders import protocol as encoding
    from hardneg.encoders import spec as model_specs
    from hardneg.encoders import tokens as token_files
    from hardneg.encoders import towers
    from hardneg.encoders.open import loading, model_files
    from hardneg.encoders.open import resolved as resolving
    from hardneg.encoders.open.resolved import load_encoder
    from hardneg.encoders.spec import spec_from
    from hardneg.evaluation import intervals, significance
    from hardneg.evaluation import metrics as measuring
    from hardneg.evaluation import metrics_json as metrics_files
    from hardneg.formats import arrays, source_files, text_lines, texts
    from hardneg.formats import form_names as forms
    from hardneg.formats import negatives as negatives_files
    from hardneg.formats import qrels as qrels_files
    from hardneg.formats import runs as run_files
    from hardneg.formats import vectors as index_files
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.segments import Segments
    from hardneg.functions import arguments, given
    from hardneg.functions import session as sessions
    from hardneg.functions.evaluate import Evaluation
    from hardneg.functions.mine import training_stage
    from hardneg.indexes import checks as index_checks
    from hardneg.indexes import compressed as compression
    from hardneg.indexes import exact_ranks, top_k
    from hardneg.indexes import lucene as lucene_search
    from hardneg.indexes.candidate_scoring import rank_candidates
    from hardneg.indexes.exact import ExactOptions
    from hardneg.indexes.lucene import start_java
    from hardneg.integrations import pyserini as pyserini_lines
    from hardneg.mining.choosing import ListsOfFile
    from hardneg.mining.thresholds import RULES as FILTER_RULES
    from hardneg.records import errors, layout, wording
    from hardneg.records import text as word_terms
    from hardneg.records.types import (
        Candidates,
        Document,
        Judgement,
        Negatives,
        PluginSetting,
        Query,
        RankedList,
        ScoreBatch,
    )
    from hardneg.registry import configure
    from hardneg.report import figure as figures
    from hardneg.report import table as numbers
    from hardneg.report.content import estimates
    from hardneg.report.table import Section, Table
    from hardneg.rerankers import network as pair_scoring
    from hardneg.runtime import distributed, seeding
    from hardneg.runtime.devices import has_bf16_units
    from hardneg.runtime.progress import Progress, Silent, Task
    from hardneg.stages import training as train_config
    from hardneg.stages import work as stage_work
    from hardneg.store import artifacts as stores
    from hardneg.store import atomic_write, identity
    from hardneg.store import blocks as block_store
    from hardneg.store.outputs import Target
    from hardneg.training import examples as training_examples
    from hardneg.training import options as training_options
    from hardneg.training.batches import own_share
    from hardneg.training.loop import learn
    from hardneg.training.step import ExampleTraining
# fmt: on

_NAMES = type_checkers_imports(__name__)
__all__ = [  # noqa: RUF022
    "Analysis", "AnalysisInputs", "Candidates", "Command", "Corpus", "Document", "Evaluation", "ExactOptions",
    "ExampleTraining", "FILTER_RULES", "Judgement", "ListsOfFile", "Negatives", "PluginSetting", "Progress",
    "Query", "RankedList", "Runs", "ScoreBatch", "Section", "Segments", "Silent", "StoredCollection", "System",
    "Table", "Target", "Task", "adaptor", "arguments", "arrays", "atomic_write", "block_store",
    "compression", "configure", "distributed", "encoders", "encoding", "errors", "estimates", "exact_ranks",
    "fields", "figures", "forms", "given", "has_bf16_units", "hub_tables", "identity", "index_checks",
    "index_files", "installed_docs", "intervals", "layout", "learn", "load_encoder", "loading", "lucene_search",
    "measuring", "metrics_files", "model_files", "model_specs", "negatives_files", "numbers",
    "overlap", "own_share", "pair_scoring", "planned_work", "protocols", "pyserini_lines", "qrels_files",
    "rank_candidates", "recipes", "records", "registry", "resolving", "run_files", "seeding", "sessions",
    "significance", "source_files", "spec_from", "stage_work", "stages", "start_java", "stores", "terminal",
    "text_lines", "texts", "token_files", "top_k", "towers", "train_config", "training_examples", "training_options",
    "training_stage", "word_terms", "wording",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, called = type_checkers_imports(__name__)[name]
    found = getattr(import_module(home), called, None)
    return import_module(f"{home}.{called}") if found is None else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
