"""The plugins that the package names itself: defaults, and parts of the recipes that its own functions make.

All others are known to recipes and callers alone, or to the room that they are in.
"""

TOPK, WINDOW, RANDOM = "topk", "window", "random"
DENOISED, POS_MARGIN, POS_PERCENT = "denoised", "pos-margin", "pos-percent"
MINER = TOPK
"""Mines where no miner is named."""

STAR, RANKNET, LAMBDA, BCE, INFONCE = "star", "ranknet", "lambda", "bce", "infonce"
LOSS = STAR
"""Of `train`, where no loss is named."""

BM25 = "bm25"
CROSS_ENCODER = "cross-encoder"
BEIR, DOCUMENTS, HF, IR_DATASETS, PYSERINI = "beir", "documents", "hf", "ir-datasets", "pyserini"
LOCAL = "local"
