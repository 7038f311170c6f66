"""Recipes beside STAR's: SimANS's negatives, and TAS-B's batches and teachers."""

from typing import Any

from hardneg_papers.book import Book, Tree
from hardneg_papers.star import FEW, MORE, DemoSmallOrPaper, from_warm_up, star, started
from hardneg_papers.starts import BY_START


def adapt(book: Book, model: dict[str, Any]) -> None:
    """Take a paper's own network in place of RoBERTa with a new head."""
    del book.top["model"]["projection"]
    book.top["model"] |= model


def simans_passage(preset: DemoSmallOrPaper = "demo") -> Tree:
    """SimANS on passages: negatives whose scores are near the positive's, beside STAR's best-ranked ones.

      hardneg recipe run simans-passage  demo: docstrings, all-MiniLM-L6-v2; minutes, no network
      hardneg recipe run simans-passage --set stages.simans-negatives.miner.sharpness=50
      hardneg recipe run simans-passage --set dataset=beir:path/to/folder  on one's own collection
      hardneg recipe plan simans-passage --preset paper  MS MARCO passages, coCondenser; needs a GPU

    Source: Zhou et al., SimANS: Simple Ambiguous Negatives Sampling for Dense Text Retrieval, EMNLP 2022, and its
    program microsoft/SimXNS, whose settings for MS MARCO passages the preset `paper` has, but for the reranker that
    trains beside the retriever there. To expect on MedQuAD, static: as much as STAR (docs/results/more-recipes.md).
    To expect from the paper preset: no published figure. The paper has MRR@10 .409 with AR2's model to start from, its
    reranker as a teacher, and negatives mined anew every 5,000 steps. More in docs/methods/simans.md.
    """
    paper = preset == "paper"
    book = started("SimANS on passages", preset)
    model = {"name": "Luyu/co-condenser-marco", "layer_norm": False, "document_length": 128}
    if paper:
        adapt(book, model)
    star(book, preset)
    book.change("start-train", depth=200, positives=True)
    # Cosines: the positive and the documents near it are some hundredths apart, so the odds have to fall steeply.
    miner: Tree = {"name": "simans", "sharpness": 100.0, "depth": 200, "count": 50}
    own: Tree = {
        "loss": {"name": "star"},
        "options": {"negatives_per_query": 1, **(MORE if preset == "small" else FEW)},
    }
    if paper:
        # exp(-3 |s - s+|), as the program has it for MS MARCO passages.
        miner |= {"form": "absolute", "sharpness": 3.0}
        # 16 queries on each of 8 GPUs, two batches a step; 15 negatives a query.
        options = {
            "max_steps": 60000,
            "batch_size": 128,
            "accumulate": 2,
            "negatives_per_query": 15,
            "optimizer": "adamw",
            "learning_rate": 5e-6,
            "weight_decay": 0.0,
            "warmup_ratio": 0.1,
            "gradient_checkpointing": True,
            "checkpoint_every": 1000,
            "evaluate_every": 5000,
        }
        own = {"loss": {"name": "infonce"}, "options": options, "model": "warm-up", "validation_run": "start-test"}
    elif preset == "small":
        own |= BY_START
    negatives = book.add("simans-negatives", "mine", runs={"dense": "start-train"}, miner=miner)
    book.system("simans", "SimANS", negatives=negatives, **own)
    if paper:
        book.row("warm-up", "start-test")
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "simans", "index": "simans-index"}
    return book.tree()


def tas_b(preset: DemoSmallOrPaper = "demo") -> Tree:
    """TAS-B: the margins of two teachers, in batches of one topic, negatives drawn evenly over the margins.

      hardneg recipe run tas-b  demo: docstrings, all-MiniLM-L6-v2; some minutes, no network
      hardneg recipe run tas-b --set dataset=beir:path/to/folder  on one's own collection
      hardneg recipe plan tas-b --preset paper  MS MARCO passages, DistilBERT, a cross-encoder as the teacher

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling,
    SIGIR 2021, sections 3 and 4. The demo's teacher is STAR's model, as a run for each query's own documents and as the
    guide for those of the batch: no cross-encoder is packaged. The paper has cross-encoders for the one and a ColBERT
    for the other; preset paper has the guide's vectors in its place. Rows with fewer words in their names leave parts
    out. To expect from the paper preset: nothing published, as its teachers are others. The paper has MRR@10 .340 on
    the dev queries (Table 4). Here those choose the best weights, so the report has the queries of TREC 2019 DL.
    """
    paper = preset == "paper"
    book = started("TAS-B on passages", preset)
    if paper:
        model = {"name": "distilbert/distilbert-base-uncased", "layer_norm": False}
        adapt(book, {**model, "query_length": 30, "document_length": 200})
        book.top["sizes"]["queries"]["test"] = 43
        book.searches["test"] = {"split": "test"}
        book.add("bm25-dl", "search", index="bm25-index", split="test")
        book.add("start-dl", "search", index="start-index", split="test")
        runs, metrics = {"BM25": "bm25-dl", "warm-up": "start-dl"}, ["ndcg@10", "mrr@10", "recall@100"]
        book.change("scores", split="test", runs=runs, metrics=metrics, relevance_level=2)
    star(book, preset)
    own: Tree = {"guide": "star-index", "loss": {"name": "margin-mse", "in_batch": 0.75, "temperature": 1.0}}
    of_all = {"split": "train", "depth": 210, "positives": True}
    if paper:
        # BM25's negatives by a cross-encoder, whose logits have margins as wide as those of inner products. The
        # paper's scores are the means of three cross-encoders.
        source = {"source": "cross-encoder/ms-marco-MiniLM-L6-v2", "length": 256, "activation": "none"}
        plugin = {"name": "cross-encoder", **source}
        own["teacher"] = book.add("teacher", "rerank", plugin=plugin, run="bm25-train", **of_all)
        own["loss"]["in_batch_own"] = False
        # The paper stops by its dev queries; the number of steps is a bound, and no figure of the paper's.
        options: Tree = {
            "negatives_per_query": 1,
            "optimizer": "adamw",
            "learning_rate": 7e-6,
            "max_steps": 300000,
            "batch_size": 32,
            "warmup_steps": 0,
            "decay": "constant",
            "evaluate_every": 4000,
            "patience": 30,
            "weight_decay": 0.0,
            "keep_best": True,
        }
        own |= {"negatives": "bm25-negatives", "validation_run": "start-test", "validation": {"queries": 1000}}
    else:
        # STAR's scores of all that its negatives were mined from, and of the positives.
        own["teacher"] = book.add("teacher", "search", index="star-index", candidates="start-train", **of_all)
        own["negatives"], options = "static-negatives", {"negatives_per_query": 1, **FEW}
    topics = {"name": "topic-balanced", "clusters": 2000 if paper else 20}
    batches: Tree = {"batches": topics, "batches_from": "start-index"}
    book.system("margins", "MarginMSE", **own, options=options)
    book.system("topics", "MarginMSE, topics", **own, **batches, options=options)
    drawn = {**options, "negatives_drawn": "margin_bins"}
    book.system("tas-b", "TAS-B", **own, **batches, options=drawn)
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "tas-b", "index": "tas-b-index"}
    return book.tree()
