"""Shared names of artifact files, stages and plugins, and the default depths of ranked lists."""

DATASET = "dataset"
START = "start"
"""The names that stages use to refer to the dataset stage and to the start model."""

RUN = "run.trec.gz"
QUERIES = "queries.arrow"
"""The queries of a run, in the same folder."""
NEGATIVES = "negatives.arrow"
DROPPED = "dropped.arrow"
"""The candidates that a miner dropped, in the same folder as its negatives."""
METRICS = "metrics.json"
TUNING = "tuning.json"
ANSWERS = "answers.jsonl"
HISTORY = "history.jsonl"
"""The learning curve of a training run."""
MODEL_FOLDER = "model"
SPEC_FILE = "hardneg.json"
"""The file in a model's folder with the prompts, lengths and similarity used in training."""
INDEX_FOLDER = "index"
"""The index folder in the artifact of a stage that also writes a model; otherwise, the artifact itself is the index."""
DOC_IDS = "docid"
TERMS = "terms.txt"
SHARDS = "shards.json"
"""Files of an index folder: ids by row, terms by number, and the list of shards, if any."""
WEIGHTS = "sparse.json"
"""The file that marks a folder of term weights, with its numbers of rows and terms."""
REPORT_HTML = "report.html"
REPORT_MARKDOWN = "report.md"
QUERY_TABLE = "queries.tsv"
"""The scores of each query, in the same folder as the report."""
LOCK = "recipe.lock.yaml"
"""The file in a run folder with the resolved recipe and the key of every step."""

# Default depths of ranked lists, in documents per query.
LIST_DEPTH = 100
"""The depth of searched, reranked, fused or compared lists, as in ANCE for BM25 (Xiong et al., ICLR 2021)."""
TOP_DEPTH = 200
"""The number of candidates for negatives, as in ADORE (Zhan et al., SIGIR 2021), SimANS and ANCE-Tele."""
MINED_DEPTH = 210
"""The depth of lists to mine from: ten more than `TOP_DEPTH`, to leave room for positives."""
RETURN_DEPTH = 20
"""The cutoff rank of the round-trip filter for generated queries."""
SCORED_DEPTH = 50
"""The number of candidates that a second model scores, to filter negatives or to label pairs."""

# Plugins that the core refers to by name, as defaults or in its own recipes.
TOPK, WINDOW, RANDOM = "topk", "window", "random"
MINER = TOPK
"""The default miner."""

STAR, LAMBDA, BCE, INFONCE = "star", "lambda", "bce", "infonce"
LOSS = STAR
"""The default loss of `train`."""

BM25 = "bm25"
CROSS_ENCODER = "cross-encoder"
BEIR, DOCUMENTS = "beir", "documents"
LOCAL = "local"
