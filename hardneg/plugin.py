"""All that an outside package may import, beside `hardneg.testing`: `from hardneg.plugin import Candidates, Negatives`.

A name is imported with its module when it is asked for, so that this module is light. What is not named here may change
without notice.
"""

import ast
import inspect
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.analysis.base import Analysis, Runs
    from hardneg.analysis.inputs import AnalysisInputs, Files
    from hardneg.api.workplace import usual_store
    from hardneg.batches.batch_order import BatchOrder, TrainingQueries
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.families.dense.vectors import OneVector
    from hardneg.encoders.inference import EncodeOptions
    from hardneg.encoders.open.configuration import Shape
    from hardneg.encoders.open.model_digest import model_content
    from hardneg.encoders.open.model_files import check_files as check_model_files
    from hardneg.encoders.open.model_files import load_options as weight_options
    from hardneg.encoders.open.model_files import read_json
    from hardneg.encoders.open.resolved import load_encoder
    from hardneg.encoders.open.resolved import opening as opening_model
    from hardneg.encoders.open.resolved import resolve as resolve_model
    from hardneg.encoders.open.resolved_model import ResolvedModel
    from hardneg.encoders.open.save import forget_last_call
    from hardneg.encoders.open.save import written_whole as writing_model
    from hardneg.encoders.open.soundness import positions as most_positions
    from hardneg.encoders.open.source import locate as locate_model
    from hardneg.encoders.protocol import EncoderFamily, Form, StoredRows, StoreWriter, TextEncoder, TextWindows
    from hardneg.encoders.representation import Representation
    from hardneg.encoders.spec import FullSpec, ModelSpec, Side, spec_from, whole_prompts
    from hardneg.encoders.speed.fastest import takes_bf16
    from hardneg.encoders.speed.fastest import usual_budget as usual_tokens_per_batch
    from hardneg.encoders.speed.passes import one_ahead
    from hardneg.encoders.tokens.tokens import Tokens, token_batches
    from hardneg.encoders.towers import evaluating
    from hardneg.evaluation.metrics import Scores, means
    from hardneg.evaluation.metrics_json import Measured, read_metrics, write_metrics
    from hardneg.evaluation.significance import Comparison, compare_all
    from hardneg.fields import (
        FREE,
        LATER,
        MEASURED,
        InputFile,
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
    from hardneg.formats.negatives import read_negatives, write_negatives
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
    from hardneg.indexes.kernels.checks import vector_blocks
    from hardneg.indexes.kernels.exact.exact import ExactOptions, ExactSearcher
    from hardneg.indexes.kernels.faiss.compression import encode_blocks, load_faiss
    from hardneg.indexes.kernels.faiss.compression import make_room as reserve_vectors
    from hardneg.indexes.kernels.faiss.compression import save as save_index
    from hardneg.indexes.kernels.faiss.compression import threads as faiss_threads
    from hardneg.indexes.kernels.lucene.java import start_java
    from hardneg.indexes.open_store import open_store
    from hardneg.lines.base import Job, Line, Of
    from hardneg.lines.shared_arguments import RUN as RUN_ARGUMENT
    from hardneg.recipe.laid_indexes import LaidIndex, laid_indexes
    from hardneg.recipe.opened_index import OpenedIndex
    from hardneg.records.errors import (
        ArtifactError,
        ClosedArtifact,
        DataError,
        HardnegError,
        HubError,
        MissingDependency,
        ModelError,
        NewerArtifact,
        NotOurs,
        PartDone,
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
        SessionWriter,
        StageBlocks,
        StoredSearcher,
        TrainableReranker,
        WriterCost,
    )
    from hardneg.report.content import estimates
    from hardneg.report.figure import bar_width, bars, figure, plain_axes
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
    from hardneg.training.option_groups import again as option_again
    from hardneg.training.options import LearningOptions
    from hardneg.verbs.shared.context import ArtifactInput, Facts, StageContext
    from hardneg.verbs.shared.engine import Engine
    from hardneg.verbs.shared.inputs import open_collection, open_queries, own_queries
    from hardneg.verbs.shared.stage_spec import (
        PAIR_TOKENS,
        IndexSpec,
        RecipeView,
        Row,
        RunSpec,
        Sizes,
        StageSpec,
        source_of,
    )
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
    from hardneg.cli.outputs import store_outputs
    from hardneg.cli.planned_work import plugin_options
    from hardneg.doors.pyserini.openings import QuerySide, opening, openings
    from hardneg.encoders.open.model_files import module_folders
    from hardneg.encoders.open.resolved_model import FolderFamily
    from hardneg.formats.export.forms import WriteOptions, write_form
    from hardneg.formats.negatives import drop_batches
    from hardneg.formats.qrels import read_qrels, write_qrels
    from hardneg.indexes.kernels.candidate_scoring import rank_candidates
    from hardneg.recipe.load import check_recipe
    from hardneg.recipe.plan import make_plan
    from hardneg.recipe.run_folder import artifacts_of, read_lock
    from hardneg.records.private_paths import dataset_name, without_paths
    from hardneg.records.terms import term_spans, terms
    from hardneg.store.identity import plugin_identity
    from hardneg.store.replaced_files import Target

__all__ = [  # noqa: RUF022
    # Records: what passes between datasets, indexes, miners, losses and stages.
    "Answers",  # the short answers to one query
    "Candidates",  # one query with its positives and ranked lists: what a miner selects from
    "Collection",  # what a dataset loader returns
    "Document",  # one entry of a corpus
    "Drops",  # which candidates a miner left out, and why
    "Encoded",  # what an encoder makes of texts: vectors, weights of terms, or a vector a token
    "EncodedBatch",  # what a regularizer sees of a batch
    "HasAnswers",  # a collection that has answers too
    "HasExcluded",  # a collection with documents that do not count for some queries
    "Exclusion",  # one such document
    "HasGroups",  # a collection whose documents and queries belong to groups
    "HasParts",  # a collection that is read part by part, past its mistakes
    "HasWithheld",  # a collection that keeps judgements from training
    "Hits",  # the rows and scores of the best k documents of each query
    "Judgement",  # how relevant one document is to one query
    "Lookup",  # bytes of a source on this machine, and bytes to download
    "Membership",  # the group of one document or query
    "Negatives",  # what a miner chose for one query
    "PluginSetting",  # a plugin's name with its options, as a recipe has them
    "Query",  # one query
    "RankedList",  # the documents of one query, best first, with their scores
    "ScoreBatch",  # what a loss sees of a batch
    "SparseRows",  # weights of terms, a row a text
    "TokenVectors",  # a vector a token, by text
    "Written",  # the queries that a writer made of one document
    # Protocols: the shape of each kind of plugin, for type checkers and readers.
    "BatchOrder",  # batches: which queries share one
    "TrainingQueries",  # the training queries as `BatchOrder` sees them
    "DatasetLoader",  # a dataset
    "QueryWriter",  # a writer of queries
    "SessionWriter",  # a writer that opens something once for all documents
    "EstimatedWriter",  # a writer that estimates its cost
    "WriterCost",  # what `EstimatedWriter` returns
    "EncoderFamily",  # a family of encoders
    "TextEncoder",  # an encoder with its model opened
    "Engine",  # an engine: where the blocks of a stage are computed
    "StageBlocks",  # the blocks that an engine computes
    "IndexBackend",  # an index
    "EstimatedBackend",  # an index that estimates its size
    "RowLookup",  # row numbers of document ids
    "Searcher",  # an opened index
    "StoredSearcher",  # an opened index that returns what it stores of a document
    "DenseSearcher",  # an opened index over vectors
    "ProductSearcher",  # an opened index of product-quantised vectors
    "ExactSearcher",  # an opened index that takes `ExactOptions`
    "Loss",  # a loss
    "NegativeMiner",  # a miner
    "NegativeFilter",  # a filter: which candidates a miner does not see
    "FilterTexts",  # what a filter may read besides ranked lists
    "Regularizer",  # a regularizer
    "Reranker",  # a reranker
    "TrainableReranker",  # a reranker that stage `train-reranker` trains
    # Errors: each is one clear line for the user: what, where, what to do.
    "HardnegError",  # base of all
    "ArtifactError",  # the store or an index cannot be read or written
    "ClosedArtifact",  # an artifact that this user may not read
    "DataError",  # a data file has a mistake
    "HubError",  # the Hugging Face hub refuses
    "MissingDependency",  # a package is not installed
    "ModelError",  # a model cannot be loaded or used
    "NewerArtifact",  # an artifact of a newer hardneg
    "NotOurs",  # an artifact that may not be replaced
    "PartDone",  # a part of the work is done, the rest is other machines'
    "PluginError",  # a plugin is unknown, broken, or has bad options
    "RecipeError",  # a recipe has mistakes
    "TrainingError",  # training cannot go on
    "UsageError",  # options or arguments that make no sense
    # Verbs: a verb of recipes: its fields, what it is estimated by, and what it gets.
    "StageSpec",  # base of all verbs
    "RunSpec",  # base of verbs that make a run
    "IndexSpec",  # base of verbs that make an index
    "Name",  # a field that holds the name of a stage, split or run
    "InputFile",  # marks a field as a file whose content counts
    "Reference",  # marks a field as the name of a stage that makes what is needed
    "Trait",  # reasons not to use what a stage makes
    "Setting",  # a field that holds a plugin's name and options
    "FREE",  # for a field that does not count in the key
    "LATER",  # for a field that counts in the key if its value is not the default
    "MEASURED",  # marks a field as the name of a run to measure by
    "has_answers",  # whether the queries of a split have answers
    "marked_references",  # the references in a model's fields
    "parse_model",  # a model from its name or its mapping
    "without_problems",  # options checked by their own `problems`
    "RecipeView",  # the recipe as one stage sees it
    "Sizes",  # how large things are, for estimates
    "Row",  # one row of a plan: the estimate of a stage
    "PAIR_TOKENS",  # tokens of a query with a document, for estimates
    "source_of",  # the network that a configured plugin starts from
    "StageContext",  # what `make` gets: folder, inputs, plugins, progress
    "ArtifactInput",  # an artifact that a stage reads
    "Facts",  # what a manifest records of an artifact
    "open_collection",  # the collection of stage `dataset`
    "open_queries",  # the queries of a split
    "own_queries",  # the queries of a file that an artifact was made for
    # Lines: a command and a Python function of one or more verbs.
    "Line",  # base of all lines
    "Job",  # the work of a line: a recipe in memory, or none, and what makes the result
    "Of",  # an argument that is a field of a verb
    "Option",  # marks a field's option on the command line
    "RUN_ARGUMENT",  # the argument that names a run
    # Artifacts: names of files in artifacts, digests, and the store.
    "ANSWERS",  # file of answers
    "DROPPED",  # file of dropped candidates
    "METRICS",  # file of metrics
    "MODEL_FOLDER",  # folder of a model
    "NEGATIVES",  # file of negatives
    "QUERIES",  # file of queries
    "RUN",  # file of a run
    "KEPT",  # folder of models kept during training
    "MANIFEST",  # file that marks an artifact as finished
    "SCRATCH",  # folder that is removed when an artifact is finished
    "CHOICES",  # file, in `SCRATCH`, of what several processes agreed on
    "Store",  # the artifacts of one folder
    "usual_store",  # the store of a path, or the usual one
    "cache_folder",  # hardneg's folder for caches
    "CHOICE",  # the prefix of the subjects of choices, among what processes agree on
    "link_file",  # a hard link, or a copy
    "replace_text",  # writes a text file whole or not at all
    "replacing",  # writes a file whole or not at all
    "digest",  # names a JSON value
    "file_digest",  # names a file's bytes
    # Data: collections, runs and negatives on disk.
    "StoredCollection",  # a collection that stage `dataset` wrote
    "Corpus",  # its documents, read by row or id
    "Segments",  # how documents are cut into segments
    "positives_by_query",  # the relevant documents of judgements, by query
    "PassageAnswers",  # finds the passages that contain an answer
    "answer_spans",  # where answers are in a text
    "read_negatives",  # mined negatives of a file
    "write_negatives",  # writes mined negatives
    "recording_drops",  # negatives as they pass by, whose drops are written to a file
    "lists_in_order",  # a run's lists in the order of queries
    "lists_side_by_side",  # several runs' lists, query by query
    "read_run",  # a run in memory
    "stream_run",  # a run list by list
    "write_run",  # writes a run
    "FlatVectors",  # vectors on disk, one a document
    "FlatWriter",  # writes them block by block
    "is_complete",  # whether all of them are written
    "SparseWriter",  # writes weights of terms
    "TokenWriter",  # writes a vector a token
    "vector_blocks",  # vectors on disk, some at a time
    # Encoders: models of texts.
    "ModelSpec",  # a model as a recipe has it
    "ResolvedModel",  # a model that was looked for: its files, its family, what it says of itself
    "resolve_model",  # looks for a model
    "load_encoder",  # opens a model
    "spec_from",  # a model from its fields
    "FullSpec",  # the same with the model's own values for what it leaves out
    "Side",  # `query` or `document`
    "Shape",  # layers and width, for estimates
    "EncodeOptions",  # batch size, precision and the like
    "whole_prompts",  # prompts of a spec, checked
    "Form",  # `vectors`, `weights` or `token-vectors`
    "StoredRows",  # the rows of a corpus that are stored
    "StoreWriter",  # writes what documents are encoded into
    "TextWindows",  # texts to encode, some at a time
    "OneVector",  # stores one vector a text
    "Encoder",  # an opened sentence-transformers model, which can be trained
    "Representation",  # what its texts become
    # Networks: a network of the plugin's own: load it, run it in batches, save it.
    "locate_model",  # where a model's files are; downloads them
    "check_model_files",  # refuses a folder that holds no readable model
    "weight_options",  # how transformers is to read a folder's weights
    "read_json",  # a JSON file of a model
    "opening_model",  # errors while a model is opened, as one line
    "forget_last_call",  # a tokenizer without the settings of its last call, to be saved
    "writing_model",  # a model folder that is written whole or not at all
    "most_positions",  # the most tokens that a network can read
    "model_content",  # the digest of a model
    "takes_bf16",  # whether bfloat16 is used, by option or by the device
    "usual_tokens_per_batch",  # tokens of a batch on a device
    "best_device",  # the name of the device that networks are on by default
    "one_ahead",  # computes the next item while one is used
    "Tokens",  # token ids of many texts in one array
    "token_batches",  # batches of about equal work
    "evaluating",  # a network without dropout
    "PairScorer",  # scores pairs with a reranker's network
    "CachedScorer",  # the same, with scores kept across runs
    "CachedScores",  # the file that keeps them
    "Endpoint",  # address, key and limits of a model server
    "ModelServer",  # HTTP requests to one, with retries
    "check_server_address",  # refuses what is no address of one, or holds a secret
    "server_key",  # the key in an environment variable
    # Training: a training of the plugin's own.
    "learn",  # trains, with checkpoints and validation
    "ExampleTraining",  # base of what is trained on examples
    "LearningOptions",  # the options of a training run, to add some to
    "option_again",  # one of these with another default
    "Examples",  # draws batches of queries and documents
    "SampledBatch",  # one such batch
    "TrainingData",  # queries, positives and negatives
    "own_share",  # the part of a batch that this process trains on
    "HISTORY",  # file of the learning curve
    "Judging",  # the options of a verb that validates while it trains
    "of_the_run",  # the field `options` of a verb that trains
    # Indexes: faiss, exact search, and the indexes of a run folder.
    "OpqPq",  # the index `opq-pq`, to build and open by hand
    "start_java",  # starts the Java that hardneg uses
    "ExactOptions",  # device and memory of exact search
    "CompressedSearcher",  # an opened faiss index
    "load_faiss",  # the module faiss
    "encode_blocks",  # gives all vectors on disk to a faiss index
    "reserve_vectors",  # memory for so many vectors in a faiss index
    "save_index",  # writes a faiss index into its folder
    "faiss_threads",  # limits faiss to some threads
    "open_store",  # exact search in a folder that stage `encode` wrote
    "LaidIndex",  # an index of a run folder
    "laid_indexes",  # the indexes of a run folder
    "OpenedIndex",  # one of them opened, to be searched with texts
    # Analyses: an analysis, its table and figure, and sections of reports.
    "Analysis",  # base of all analyses
    "Runs",  # a field that holds runs by label
    "AnalysisInputs",  # what `measure` reads
    "Files",  # the same from plain files
    "Table",  # rows and columns
    "Section",  # tables and figures under a title
    "figure",  # a figure that is saved to files
    "bars",  # one bar a label
    "bar_width",  # the width of a figure for so many bars
    "plain_axes",  # title and labels of axes
    "format_score",  # a metric in the report's digits
    "format_difference",  # a difference of metrics
    "format_interval",  # a confidence interval
    "format_p_value",  # a p value
    "estimates",  # mean and interval of each metric
    "means",  # mean of each metric
    "Scores",  # metric by query
    "Measured",  # what a file of metrics holds
    "read_metrics",  # reads one
    "write_metrics",  # writes one
    "Comparison",  # one test between two systems
    "compare_all",  # all tests against baselines
    # Running: plugins by name, seeds, progress, processes.
    "configure",  # a plugin made from its setting
    "plugin_errors",  # errors of a plugin's code, named as the plugin's
    "SEED",  # the default of every `seed`
    "generator",  # random numbers that depend on the given words alone
    "Progress",  # where a stage reports its progress
    "Silent",  # progress that nobody sees
    "Task",  # one bar of it
    "World",  # this process among all
    "world",  # the processes of this run
    "gather",  # a tensor of all processes, with gradients
    "settle_by",  # how several processes agree on what one has timed
    # Commands, and functions that work as hardneg's own: where they work, what they are given, what they write.
    "Workplace",  # the store, device, settings and progress of a function's arguments
    "named_dataset",  # a dataset that a function is given, as a recipe names it
    "run_file",  # the file of a run that a function is given
    "artifacts_of",  # the artifacts of a run folder by step
    "flags_named",  # errors that call arguments by the flags of a command
    "say",  # a line on the terminal
    "progress_bars",  # progress on the terminal
    "store_outputs",  # what a command writes, checked to replace nothing of the user's
    "Target",  # one file or folder of it
    "drop_batches",  # the rows of a file of dropped candidates
    "read_qrels",  # judgements of a file
    "write_qrels",  # writes judgements
    "terms",  # the words of a text
    "term_spans",  # where they are
    "read_lock",  # the record of a run folder
    "check_recipe",  # the recipe in it
    "Evaluation",  # what was measured, as a metrics file has it
    "without_paths",  # a tree without folders of this machine
    "dataset_name",  # the same of a dataset
    "openings",  # the lines that open a run folder's indexes in Pyserini
    "opening",  # those of one index folder
    "QuerySide",  # how its queries are encoded
    "module_folders",  # the folders of a model
    "write_form",  # writes negatives with their texts
    "WriteOptions",  # how many
    "checked_tree",  # a recipe in memory
    "make_plan",  # its steps
    "plugin_options",  # options of a command, KEY=VALUE
    "plugin_identity",  # what of a plugin is in the keys of its results
    "FolderFamily",  # encoders whose models are folders
    "rank_candidates",  # the best of listed documents by an index
]


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """The module of each name, and what it is called there: the imports above, which type checkers read."""
    (block,) = (node for node in ast.parse(inspect.getsource(sys.modules[__name__])).body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {each.asname or each.name: (node.module or "", each.name) for node in imports for each in node.names}


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _homes()[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})
