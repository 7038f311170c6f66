"""The public names for plugin packages, as in `from hardneg.plugin import Candidates`; see also `hardneg.testing`.

Each name is imported on first use. Names that are not listed here may change without notice.
"""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand

# isort: off
# fmt: off
if TYPE_CHECKING:
    from hardneg import fields, protocols, recipes, records, registry, runtime, stages, store as stores
    from hardneg.analysis import runs as overlap
    from hardneg.analysis.base import Analysis, AnalysisInputs, Runs, System
    from hardneg.cli import console as terminal
    from hardneg.cli.commands import Command
    from hardneg.datasets import hugging_face as hub_tables, pydocs as installed_docs
    from hardneg.encoders import (
        encoder as encoders, protocol as encoding, spec as model_specs, tokens as token_files, towers,
    )
    from hardneg.encoders.open import loading, model_files, resolved as resolving
    from hardneg.encoders.open.resolved import load_encoder
    from hardneg.encoders.spec import spec_from
    from hardneg.evaluation import intervals, metrics as measuring, metrics_json as metrics_files, significance
    from hardneg.formats import (
        arrays, form_names as forms, negatives as negatives_files, qrels as qrels_files, runs as run_files,
        source_files, text_lines, texts, vectors as index_files,
    )
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.segments import Segments
    from hardneg.functions import arguments, given, session as sessions
    from hardneg.functions.mine import training_stage
    from hardneg.indexes import (
        checks as index_checks, compressed as compression, exact_ranks, lucene as lucene_search, top_k,
    )
    from hardneg.indexes.candidate_scoring import rank_candidates
    from hardneg.indexes.exact import ExactOptions
    from hardneg.indexes.lucene import start_java
    from hardneg.integrations import pyserini as pyserini_lines
    from hardneg.mining.choosing import ListsOfFile
    from hardneg.mining.thresholds import RULES as FILTER_RULES
    from hardneg.records import errors, layout, text as word_terms
    from hardneg.records.types import Candidates, Document, Judgement, Negatives, Query, RankedList, ScoreBatch
    from hardneg.report import figure as figures, table as tables
    from hardneg.report.content import estimates
    from hardneg.report.table import Table
    from hardneg.rerankers import network as pair_scoring
    from hardneg.stages import training as train_config, work as stage_work
    from hardneg.store import blocks as block_store
    from hardneg.training import examples as training_examples, options as training_options
    from hardneg.training.batches import own_share
    from hardneg.training.loop import learn
    from hardneg.training.step import ExampleTraining
# fmt: on
# isort: on

__all__ = [  # noqa: RUF022
    "Analysis", "AnalysisInputs", "Candidates", "Command", "Corpus", "Document", "ExactOptions", "ExampleTraining",
    "FILTER_RULES", "Judgement", "ListsOfFile", "Negatives", "Query", "RankedList", "Runs", "ScoreBatch",
    "Segments", "StoredCollection", "System", "Table", "arguments", "arrays", "block_store",
    "compression", "encoders", "encoding", "errors", "estimates", "exact_ranks", "fields", "figures", "forms",
    "given", "hub_tables", "index_checks", "index_files", "installed_docs", "intervals", "layout",
    "learn", "load_encoder", "loading", "lucene_search", "measuring", "metrics_files", "model_files",
    "model_specs", "negatives_files", "overlap", "own_share", "pair_scoring", "protocols",
    "pyserini_lines", "qrels_files", "rank_candidates", "recipes", "records", "registry", "resolving",
    "run_files", "runtime", "sessions", "significance", "source_files", "spec_from", "stage_work",
    "stages", "start_java", "stores", "tables", "terminal", "text_lines", "texts", "token_files",
    "top_k", "towers", "train_config", "training_examples", "training_options", "training_stage",
    "word_terms",
]  # fmt: skip
__getattr__ = partial(on_demand, __name__)
