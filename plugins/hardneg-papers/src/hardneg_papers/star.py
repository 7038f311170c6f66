"""STAR (Zhan et al., SIGIR 2021), its baselines, and its training for other kinds of retrievers."""

from typing import Any, Literal

from hardneg_papers.book import Book, DemoOrPaper, Tree, deep
from hardneg_papers.starts import (
    BY_START,
    DOCSTRINGS,
    WARM,
    bm25_neg,
    docstrings,
    inbatch_neg,
    msmarco,
    passages,
    rand_neg,
    roberta,
)

DemoSmallOrPaper = Literal["demo", "small", "paper"]
_FIRST_LOOK = {"name": "pydocs", "max_passages": 2000, "dev_share": 0.15, "test_share": 0.5}
FEW: Tree = {"max_steps": 42, "batch_size": 16, "warmup_steps": 5}
MORE: Tree = {"max_steps": 100, "batch_size": 24, "warmup_steps": 10, "evaluate_every": 50}


def star(book: Book, preset: str, warm: Tree | None = None, **options: Any) -> None:
    """STAR on static hard negatives; in the preset `paper` after a warm-up on BM25's, whose changes are `warm`."""
    paper = preset == "paper"
    if paper:
        negatives = book.mined("bm25-negatives", "bm25-index", "bm25")
        own = deep({"loss": {"name": "ranknet", "pairs": "own"}, "options": WARM}, warm or {})
        book.add("warm-up", "train", negatives=negatives, **own)
        book.add("start-index", "encode", model="warm-up")
        book.add("start-test", "search", index="start-index")
        # As the authors trained it: for 100 epochs by the schedule, stopped after 50,000 steps.
        whole: Tree = {
            "epochs": 100,
            "stop_at": 50000,
            "batch_size": 256,
            "learning_rate": 1e-4,
            "weight_decay": 0.01,
            "warmup_steps": 1000,
            "gradient_checkpointing": True,
            "keep_every": 10000,
            "evaluate_every": 5000,
        }
        more: Tree = {"model": "warm-up", "validation_run": "start-test", "validation": {"depth": 50, "queries": 1000}}
    elif preset == "small":
        book.add("start-dev", "search", index="start-index", split="dev", depth=50)
        whole, more = MORE, BY_START
    else:
        whole, more = FEW, {}
    mined = book.mined("static-negatives", "start-index")
    whole = deep({"negatives_per_query": 1, **whole}, options)
    book.system("star", "STAR", negatives=mined, loss={"name": "star"}, options=whole, **more)


def started(title: str, preset: str, paper: Book | None = None, **model: Any) -> Book:
    """What STAR begins with: a first look, more of the docstrings, or a paper's book."""
    if preset == "paper":
        return paper or roberta(title)
    if preset == "small":
        return docstrings(title, DOCSTRINGS, **model)
    return docstrings(title, _FIRST_LOOK, **{"query_length": 32, "document_length": 64, **model})


def rand_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """Rand Neg: negatives drawn from the whole corpus, the baseline of random negative sampling.

      hardneg recipe run rand-neg-passage                   demo: docstrings, all-MiniLM-L6-v2; minutes, no network
      hardneg recipe plan rand-neg-passage --preset paper   MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, sections 7.2.2 and
    7.3.
    To expect from the paper preset: MRR@10 .301, R@100 .853 on the dev queries (the paper's Table 2; not run by us).
    The paper does not tell the number of steps: 100,000 are ours.
    """
    book = passages("Rand Neg on passages", preset)
    rand_neg(book, preset == "paper")
    return book.tree()


def inbatch_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """In-Batch Neg: the other queries' positives as negatives, the baseline that costs least.

      hardneg recipe run inbatch-neg-passage                   demo: docstrings, all-MiniLM-L6-v2; minutes, no network
      hardneg recipe plan inbatch-neg-passage --preset paper   MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, sections 7.2.2 and
    7.3.
    To expect from the paper preset: MRR@10 .264, R@100 .837 on the dev queries (the paper's Table 2; not run by us).
    The paper does not tell the number of steps: 100,000 are ours.
    """
    book = passages("In-Batch Neg on passages", preset)
    inbatch_neg(book, preset == "paper")
    return book.tree()


def bm25_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """BM25 Neg: static hard negatives from the top of BM25, the baseline of hard negative sampling.

      hardneg recipe run bm25-neg-passage                   demo: docstrings, all-MiniLM-L6-v2; minutes, no network
      hardneg recipe plan bm25-neg-passage --preset paper   MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, sections 7.2.2 and
    7.3.
    To expect from the paper preset: MRR@10 .309, R@100 .813 on the dev queries (the paper's Table 2; not run by us).
    """
    book = passages("BM25 Neg on passages", preset)
    bm25_neg(book, preset == "paper")
    return book.tree()


def star_inbatch_passage(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR and in-batch negatives side by side: what static hard negatives add to the cheapest training there is.

      hardneg recipe run star-inbatch-passage  demo: docstrings, all-MiniLM-L6-v2; a minute or two, no network
      hardneg recipe run star-inbatch-passage --preset small  more of the docstrings, whole passages
      hardneg recipe plan star-inbatch-passage --preset paper  MS MARCO passages, RoBERTa-base; needs a GPU

    The same two rows for other kinds of retrievers: star-static, star-splade, star-colbert. Source: Zhan et al.,
    Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, section 7.3. To expect from the paper
    preset: STAR MRR@10 .340; In-Batch Neg .264 (the paper's Table 2; not run by us).
    """
    book = started("STAR and in-batch negatives on passages", preset)
    star(book, preset)
    _beside(book, preset, "inbatch-neg", {"max_steps": 100000, "batch_size": 256})
    book.change("scores", baselines=from_warm_up(preset, "In-Batch Neg"))
    return _star_out(book, preset)


def star_splade(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR for learned sparse retrieval: SPLADE with static hard negatives and the FLOPS regularizer.

      hardneg recipe run star-splade  demo: docstrings, from all-MiniLM-L6-v2; some minutes on two cores, no network
      hardneg recipe run star-splade --preset small  more of the docstrings, whole passages: six times the work
      hardneg recipe plan star-splade --preset paper  MS MARCO passages, DistilBERT; needs a GPU

    Source: Formal et al., SPLADE v2, arXiv 2109.10086, section 4, for the model and how it is trained; Zhan et al.,
    Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, for the negatives. To expect from the
    paper preset's warm-up: MRR@10 .340, R@1k .965 on the dev queries (SPLADE-max, the paper's Table 1; not run by us).

    It needs `pip install ./plugins/hardneg-sparse`. all-MiniLM-L6-v2 has no head of masked words: its head is new, made
    of its own embeddings. The row "as shipped" is that model before any training.
    """
    paper: Book | None = None
    steps: Tree = {"max_steps": 150000, "batch_size": 128, "learning_rate": 2e-5, "warmup_steps": 6000}
    regularizer = {"name": "flops", "query_weight": 0.001, "document_weight": 0.001}
    if preset == "paper":
        # DistilBERT has the head that it was pretrained with. The authors' program trains SPLADE-max by these numbers.
        name = "distilbert/distilbert-base-uncased"
        model = {"name": name, "pooling": "own", "layer_norm": False, "encoder": "sparse"}
        paper = msmarco("STAR for SPLADE", **model, query_length=256, document_length=256)
        regularizer |= {"query_weight": 0.0003, "document_weight": 0.0001}
        whole = {**steps, "optimizer": "adamw", "weight_decay": 0.01, "chunk": 32}
        paper.defaults = deep(paper.defaults, {"train": {"options": whole}})
    book = started("STAR for SPLADE", preset, paper, encoder="sparse")
    book.defaults = deep(book.defaults, {"train": {"loss": {"temperature": 1.0}, "regularizer": regularizer}})
    # The authors' InBatchPairwiseNLL.
    pairs = {"name": "infonce", "negatives": "own_and_positives"}
    options = {**steps, "weight_decay": 0.01, "decay": "linear", "false_negative_mask": False}
    star(book, preset, {"options": options}, **(steps if preset == "paper" else {}))
    if preset == "paper":
        book.stages["warm-up"]["loss"] = {**pairs, "temperature": 1.0}
    _beside(book, preset, "inbatch-neg", steps)
    # For Pyserini's LuceneImpactSearcher.
    book.add("star-impact", "index", backend="impact", vectors="star-index")
    book.change("scores", baselines=from_warm_up(preset))
    return _star_out(book, preset, "star-impact")


def star_colbert(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR for late interaction, as ColBERT has it: static hard negatives for a model with a vector a token.

      hardneg recipe run star-colbert  demo: docstrings, all-MiniLM-L6-v2; minutes, no network
      hardneg recipe run star-colbert --preset small  more of the docstrings, whole passages: six times the work
      hardneg recipe plan star-colbert --preset paper  MS MARCO passages, BERT-base; needs a GPU

    The start of demo and small is no late-interaction model: all-MiniLM-L6-v2's transformer without its pooling, and a
    new orthonormal projection to 128 dimensions. `as shipped` is that, untrained. Source: the model is that of Khattab
    and Zaharia, ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over BERT, SIGIR
    2020, sections 3 and 4.1: 128 dimensions, queries filled up to 32 tokens, documents of 180, punctuation left out,
    rate 3e-6, 32 a batch, 200,000 steps. The training is that of Zhan et al., Optimizing Dense Retrieval Model Training
    with Hard Negatives, SIGIR 2021, sections 6.1 and 7.3. To expect from the paper preset: no paper has this row. The
    warm-up model is ColBERT, with MRR@10 .360, R@1000 .968 on the dev queries (its Table 2; not run by us).
    """
    paper: Book | None = None
    steps: Tree = {"max_steps": 200000, "batch_size": 32, "warmup_steps": 0}
    if preset == "paper":
        model = {"name": "google-bert/bert-base-uncased", "pooling": "own", "layer_norm": False, "similarity": "maxsim"}
        prompts = {"query_prompt": "[Q] ", "document_prompt": "[D] ", "query_length": 32, "document_length": 180}
        encoder = {"name": "multi-vector", "dimension": 128, "query_expansion": 32, "skiplist": "punctuation"}
        paper = msmarco("STAR for late interaction on passages", **model, **prompts, encoder=encoder)
        whole = {"optimizer": "adamw", "learning_rate": 3e-6, "warmup_steps": 0}
        paper.defaults = deep(paper.defaults, {"train": {"options": whole}})
    encoder = {"name": "multi-vector", "dimension": 128}
    book = started("STAR for late interaction on passages", preset, paper, encoder=encoder)
    # MaxSim is a sum over the tokens of a query: scores are far enough apart without a low temperature.
    book.defaults = deep(book.defaults, {"train": {"loss": {"temperature": 1.0}}})
    # STAR goes on from the paper's own training, at the same rate; 50,000 steps are as many as for one vector a text.
    longer = {**steps, "max_steps": 50000, "learning_rate": 3e-6, "gradient_checkpointing": False}
    star(book, preset, {"options": {"max_steps": 200000}}, **(longer if preset == "paper" else {}))
    _beside(book, preset, "in-batch", steps)
    if preset == "paper":
        # Exact MaxSim of 500,000 queries with all passages would take months: codes, and candidates by their lists.
        for name in ("start", "star", "in-batch"):
            codes = book.add(f"{name}-codes", "index", vectors=f"{name}-index", backend="multi-vector-pq")
            book.change(f"{name}-test", index=codes)
        book.change("start-train", index="start-codes")
    book.change("scores", baselines=from_warm_up(preset, "In-Batch Neg"))
    return _star_out(book, preset)


def _beside(book: Book, preset: str, name: str, paper: Tree) -> None:
    """In-batch negatives beside STAR, with as many steps."""
    steps, more = {"demo": (FEW, {}), "small": (MORE, BY_START), "paper": (paper, {})}[preset]
    loss = {"name": "ranknet", "pairs": "all"}
    book.system(name, "In-Batch Neg", loss=loss, options={"negatives_per_query": 0, **steps}, **more)


def from_warm_up(preset: str, *beside: str) -> list[str]:
    """The baselines of a table of STAR: the model that it begins with, others, and BM25."""
    return ["warm-up", *beside, "BM25"] if preset == "paper" else [*beside, "as shipped", "BM25"]


def _star_out(book: Book, preset: str, index: str = "star-index") -> Tree:
    """The tree of a recipe whose outputs are STAR's; the row of its warm-up stands last."""
    if preset == "paper":
        book.row("warm-up", "start-test")
    book.top["outputs"] = {"model": "star", "index": index}
    return book.tree()
