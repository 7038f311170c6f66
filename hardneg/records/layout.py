"""Names that rooms share: of files in artifacts, of every recipe's stages, of plugins; and the depths of lists."""

DATASET = "dataset"
START = "start"
"""The stage that every recipe has, and the model it begins with, as stages name them."""

RUN = "run.trec.gz"
QUERIES = "queries.arrow"
"""Queries of a file, beside their run and its results."""
NEGATIVES = "negatives.arrow"
DROPPED = "dropped.arrow"
"""The candidates that a miner dropped, beside its negatives."""
METRICS = "metrics.json"
TUNING = "tuning.json"
ANSWERS = "answers.jsonl"
HISTORY = "history.jsonl"
"""The learning curve of a training."""
MODEL_FOLDER = "model"
SPEC_FILE = "hardneg.json"
"""In a model's folder: the prompts, lengths and similarity that it was trained with."""
INDEX_FOLDER = "index"
"""Of a stage that makes a model and an index; one that makes only an index writes it into its artifact's folder."""
DOC_IDS = "docid"
TERMS = "terms.txt"
"""The files of an index folder that name its rows and, of term weights, its terms."""
WEIGHTS = "sparse.json"
"""The file that marks a folder of term weights: how many rows and terms there are."""
REPORT_HTML = "report.html"
REPORT_MARKDOWN = "report.md"
QUERY_TABLE = "queries.tsv"
"""Scores by query, beside a report."""
LOCK = "recipe.lock.yaml"
"""In the folder of a finished recipe: its stages with every key."""

# How many documents of a list are taken by default: an option's `depth` is one of these, or a number of its own.
LIST_DEPTH = 100
"""Of a list that is kept: searched, reranked, fused or compared; ANCE's of BM25 (Xiong et al., ICLR 2021)."""
TOP_DEPTH = 200
"""That negatives are chosen from, as ADORE (Zhan et al., SIGIR 2021), SimANS and ANCE-Tele choose them."""
MINED_DEPTH = 210
"""Of lists to mine from: ten more than `TOP_DEPTH`, as positives may be among them."""
RETURN_DEPTH = 20
"""Among which the passage of a written query is to be."""
SCORED_DEPTH = 50
"""That are tested by a second model's scores, for negatives and for labels."""

# The plugins that the package names itself: defaults, and parts of the recipes that its own functions make.
TOPK, WINDOW, RANDOM = "topk", "window", "random"
MINER = TOPK
"""Mines where no miner is named."""

STAR, LAMBDA, BCE, INFONCE = "star", "lambda", "bce", "infonce"
LOSS = STAR
"""Of `train`, where no loss is named."""

BM25 = "bm25"
CROSS_ENCODER = "cross-encoder"
BEIR, DOCUMENTS = "beir", "documents"
LOCAL = "local"
