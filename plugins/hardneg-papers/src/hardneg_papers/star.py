"""Recipes for STAR (Zhan et al., SIGIR 2021), also as sparse retrieval and late interaction, and for SimANS and TAS-B.

Demos train all-MiniLM-L6-v2 on docstrings in minutes, offline; presets `small` use more of them, `paper` needs a GPU.
"""

from typing import Any, Literal

from hardneg_papers.book import Book, Tree, deep
from hardneg_papers.starts import BY_START, DOCSTRINGS, INBATCH, WARM_UP, docstrings, msmarco, roberta

DemoSmallOrPaper = Literal["demo", "small", "paper"]
_FIRST_LOOK = {"name": "pydocs", "max_passages": 2000, "dev_share": 0.15, "test_share": 0.5}
_FEW: Tree = {"max_steps": 42, "batch_size": 16, "warmup_steps": 5}
_MORE: Tree = {"max_steps": 100, "batch_size": 24, "warmup_steps": 10, "evaluate_every": 50}
_DISTILBERT = {"name": "distilbert/distilbert-base-uncased", "layer_norm": False}


def star(book: Book, preset: str, warm: Tree | None = None, **options: Any) -> None:
    """Add STAR with training `options`; in the preset `paper`, after a BM25 warm-up with the settings `warm`."""
    whole, more = (_MORE, BY_START) if preset == "small" else (_FEW, {})
    if preset == "paper":
        negatives = book.mined("bm25-negatives", "bm25-index", "bm25")
        own = deep({"loss": {"name": "ranknet", "pairs": "own"}, "options": WARM_UP}, warm or {})
        book.add("warm-up", "train", negatives=negatives, **own)
        book.add("start-index", "encode", model="warm-up")
        book.add("start-test", "search", index="start-index")
        # As the authors trained it: for 100 epochs by the schedule, stopped after 50,000 steps.
        whole = {"epochs": 100, "stop_at": 50000, "batch_size": 256, "learning_rate": 1e-4, "weight_decay": 0.01}
        whole |= {"warmup_steps": 1000, "gradient_checkpointing": True, "keep_every": 10000, "evaluate_every": 5000}
        more = {"model": "warm-up", "validation_run": "start-test", "validation": {"depth": 50, "queries": 1000}}
    elif preset == "small":
        book.add("start-dev", "search", index="start-index", split="dev", depth=50)
    mined = book.mined("static-negatives", "start-index")
    whole = deep({"negatives_per_query": 1, **whole}, options)
    book.system("star", "STAR", negatives=mined, loss={"name": "star"}, options=whole, **more)


def started(title: str, preset: str, paper: Book | None = None, **model: Any) -> Book:
    """Return a book for docstrings with the options `model`; in preset `paper`, return `paper` or `roberta`'s book."""
    if preset == "paper":
        return paper or roberta(title)
    if preset == "small":
        return docstrings(title, DOCSTRINGS, **model)
    return docstrings(title, _FIRST_LOOK, **{"query_length": 32, "document_length": 64, **model})


def from_warm_up(preset: str, *beside: str) -> list[str]:
    """Return the labels of the baselines in STAR's table: the initial model, the labels in `beside`, and BM25."""
    return ["warm-up", *beside, "BM25"] if preset == "paper" else [*beside, "as shipped", "BM25"]


def _beside(book: Book, preset: str, name: str, paper: Tree) -> None:
    """Add in-batch negatives with the number of steps of STAR."""
    steps, more = {"demo": (_FEW, {}), "small": (_MORE, BY_START), "paper": (paper, {})}[preset]
    book.system(name, "In-Batch Neg", loss=INBATCH, options={"negatives_per_query": 0, **steps}, **more)


def _star_out(book: Book, preset: str, index: str = "star-index") -> Tree:
    """Return the recipe tree with STAR as output and the warm-up in the last row."""
    if preset == "paper":
        book.row("warm-up", "start-test")
    book.top["outputs"] = {"model": "star", "index": index}
    return book.tree()


def star_inbatch_passage(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR compared with in-batch negatives, the cheapest method.

      hardneg recipe run star-inbatch-passage --preset small   `paper`: MS MARCO passages, RoBERTa-base

    For other kinds of retrievers, see star-static, star-splade and star-colbert. Source: Zhan et al., SIGIR 2021,
    section 7.3. Expected from the paper preset: STAR MRR@10 .340; In-Batch Neg .264 (Table 2; not run by us).
    """
    book = started("STAR and in-batch negatives on passages", preset)
    star(book, preset)
    _beside(book, preset, "inbatch-neg", {"max_steps": 100000, "batch_size": 256})
    book.change("scores", baselines=from_warm_up(preset, "In-Batch Neg"))
    return _star_out(book, preset)


def star_splade(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR for learned sparse retrieval: SPLADE with static hard negatives and the FLOPS regularizer.

      hardneg recipe run star-splade --preset small            `paper`: MS MARCO passages, DistilBERT

    It needs `pip install ./plugins/hardneg-sparse`. all-MiniLM-L6-v2 has no masked-language-model head, so a new
    one is built from its embeddings. The row "as shipped" is this model before any training.
    Source: Formal et al., SPLADE v2, arXiv 2109.10086, section 4, for the model and its training; Zhan et al., SIGIR
    2021, for the negatives. Expected from the paper preset's warm-up: MRR@10 .340, R@1k .965 on the dev queries
    (SPLADE-max, the paper's Table 1; not run by us).
    """
    paper: Book | None = None
    steps: Tree = {"max_steps": 150000, "batch_size": 128, "learning_rate": 2e-5, "warmup_steps": 6000}
    regularizer = {"name": "flops", "query_weight": 0.001, "document_weight": 0.001}
    if preset == "paper":
        # DistilBERT has the head that it was pretrained with. The authors' program trains SPLADE-max by these numbers.
        model = {**_DISTILBERT, "pooling": "own", "encoder": "sparse"}
        paper = msmarco("STAR for SPLADE", **model, query_length=256, document_length=256)
        regularizer |= {"query_weight": 0.0003, "document_weight": 0.0001}
        whole = {**steps, "optimizer": "adamw", "weight_decay": 0.01, "chunk": 32}
        paper.defaults = deep(paper.defaults, {"train": {"options": whole}})
    book = started("STAR for SPLADE", preset, paper, encoder="sparse")
    book.defaults = deep(book.defaults, {"train": {"loss": {"temperature": 1.0}, "regularizer": regularizer}})
    options = {**steps, "weight_decay": 0.01, "decay": "linear", "false_negative_mask": False}
    star(book, preset, {"options": options}, **(steps if preset == "paper" else {}))
    if preset == "paper":
        # The authors' InBatchPairwiseNLL.
        book.stages["warm-up"]["loss"] = {"name": "infonce", "negatives": "own_and_positives", "temperature": 1.0}
    _beside(book, preset, "inbatch-neg", steps)
    book.add("star-impact", "index", backend="impact", vectors="star-index")  # for Pyserini's LuceneImpactSearcher
    book.change("scores", baselines=from_warm_up(preset))
    return _star_out(book, preset, "star-impact")


def star_colbert(preset: DemoSmallOrPaper = "demo") -> Tree:
    """STAR for late interaction as in ColBERT: static hard negatives for a model with token vectors.

      hardneg recipe run star-colbert --preset small           `paper`: MS MARCO passages, BERT-base

    Demo and small start from the transformer of all-MiniLM-L6-v2, which is not a late-interaction model, without
    pooling and with a new orthonormal projection to 128 dimensions. `as shipped` is this model, untrained.
    Source: Khattab and Zaharia, ColBERT, SIGIR 2020, sections 3 and 4.1, for the model: 128 dimensions, queries padded
    to 32 tokens, documents cut to 180, no punctuation, learning rate 3e-6, batches of 32, 200,000 steps; Zhan et al.,
    SIGIR 2021, sections 6.1 and 7.3, for the training. Expected from the paper preset: no paper has this row. The
    warm-up model is ColBERT, with MRR@10 .360, R@1000 .968 on the dev queries (its Table 2; not run by us).
    """
    title = "STAR for late interaction on passages"
    paper: Book | None = None
    steps: Tree = {"max_steps": 200000, "batch_size": 32, "warmup_steps": 0}
    encoder = {"name": "multi-vector", "dimension": 128}
    if preset == "paper":
        model = {"name": "google-bert/bert-base-uncased", "pooling": "own", "layer_norm": False, "similarity": "maxsim"}
        prompts = {"query_prompt": "[Q] ", "document_prompt": "[D] ", "query_length": 32, "document_length": 180}
        filled = {**encoder, "query_expansion": 32, "skiplist": "punctuation"}
        paper = msmarco(title, **model, **prompts, encoder=filled)
        whole = {"optimizer": "adamw", "learning_rate": 3e-6, "warmup_steps": 0}
        paper.defaults = deep(paper.defaults, {"train": {"options": whole}})
    book = started(title, preset, paper, encoder=encoder)
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


def _adapt(book: Book, model: dict[str, Any]) -> None:
    """Use the network of a paper instead of RoBERTa with a new head."""
    del book.top["model"]["projection"]
    book.top["model"] |= model


def simans_passage(preset: DemoSmallOrPaper = "demo") -> Tree:
    """SimANS on passages: negatives with scores close to the positive's, compared with STAR's highest-ranked negatives.

      hardneg recipe run simans-passage                        `paper`: MS MARCO passages, coCondenser
      hardneg recipe run simans-passage --set stages.simans-negatives.miner.sharpness=50

    Source: Zhou et al., SimANS: Simple Ambiguous Negatives Sampling for Dense Text Retrieval, EMNLP 2022, and its
    program microsoft/SimXNS. The preset `paper` uses its settings for MS MARCO passages, except for the reranker
    trained jointly with the retriever. Expected on MedQuAD with a static model: the same as STAR
    (docs/results/more-recipes.md). Expected from the paper preset: no published value. The paper reports MRR@10 .409
    when it starts from the model of AR2, with its reranker as the teacher and negatives re-mined every 5,000 steps.
    See also docs/methods/simans.md.
    """
    paper = preset == "paper"
    book = started("SimANS on passages", preset)
    if paper:
        _adapt(book, {"name": "Luyu/co-condenser-marco", "layer_norm": False, "document_length": 128})
    star(book, preset)
    book.change("start-train", depth=200, positives=True)
    # Cosines: the positive and the documents near it are some hundredths apart, so the odds have to fall steeply.
    miner: Tree = {"name": "simans", "sharpness": 100.0, "depth": 200, "count": 50}
    options: Tree = {"negatives_per_query": 1, **(_MORE if preset == "small" else _FEW)}
    own: Tree = {"loss": {"name": "star"}, "options": options, **(BY_START if preset == "small" else {})}
    if paper:
        miner |= {"form": "absolute", "sharpness": 3.0}  # exp(-3 |s - s+|), as the program has it
        # 16 queries on each of 8 GPUs, two batches a step; 15 negatives a query.
        options = {"max_steps": 60000, "batch_size": 128, "accumulate": 2, "negatives_per_query": 15}
        options |= {"optimizer": "adamw", "learning_rate": 5e-6, "weight_decay": 0.0, "warmup_ratio": 0.1}
        options |= {"gradient_checkpointing": True, "checkpoint_every": 1000, "evaluate_every": 5000}
        own = {"loss": {"name": "infonce"}, "options": options, "model": "warm-up", "validation_run": "start-test"}
    negatives = book.add("simans-negatives", "mine", runs={"dense": "start-train"}, miner=miner)
    book.system("simans", "SimANS", negatives=negatives, **own)
    if paper:
        book.row("warm-up", "start-test")
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "simans", "index": "simans-index"}
    return book.tree()


def tas_b(preset: DemoSmallOrPaper = "demo") -> Tree:
    """TAS-B: distillation of two teachers' margins, in batches of one topic, with negatives drawn evenly by margin.

      hardneg recipe run tas-b                                 `paper`: MS MARCO passages, DistilBERT

    Source: Hofstätter et al., Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling,
    SIGIR 2021, sections 3 and 4. The paper's teachers are cross-encoders for a query's own documents and ColBERT for
    the other documents of the batch. The paper preset uses STAR's vectors instead of ColBERT; the demo uses STAR for
    both, because no cross-encoder is packaged. The MarginMSE rows omit parts of the method. Expected from the paper
    preset: no published value, because its teachers differ. The paper reports MRR@10 .340 on dev queries (Table 4).
    Here, dev queries select the best weights, so the report uses the queries of TREC 2019 DL.
    """
    paper = preset == "paper"
    book = started("TAS-B on passages", preset)
    if paper:
        _adapt(book, {**_DISTILBERT, "query_length": 30, "document_length": 200})
        book.top["sizes"]["queries"]["test"] = 43
        book.searches["test"] = {"split": "test"}
        book.add("bm25-dl", "search", index="bm25-index", split="test")
        book.add("start-dl", "search", index="start-index", split="test")
        runs, metrics = {"BM25": "bm25-dl", "warm-up": "start-dl"}, ["ndcg@10", "mrr@10", "recall@100"]
        book.change("scores", split="test", runs=runs, metrics=metrics, relevance_level=2)
    star(book, preset)
    own: Tree = {"guide": "star-index", "loss": {"name": "margin-mse", "in_batch": 0.75, "temperature": 1.0}}
    of_all = {"split": "train", "depth": 210, "positives": True}
    options: Tree = {"negatives_per_query": 1, **_FEW}
    if paper:
        # BM25's negatives by a cross-encoder, whose logits have margins as wide as those of inner products. The
        # paper's scores are the means of three cross-encoders.
        source = {"source": "cross-encoder/ms-marco-MiniLM-L6-v2", "length": 256, "activation": "none"}
        plugin = {"name": "cross-encoder", **source}
        own["teacher"] = book.add("teacher", "rerank", plugin=plugin, run="bm25-train", **of_all)
        own["loss"]["in_batch_own"] = False
        # The paper stops early on its dev queries; the number of steps is our upper bound, not the paper's.
        options = {"negatives_per_query": 1, "optimizer": "adamw", "learning_rate": 7e-6, "max_steps": 300000}
        options |= {"batch_size": 32, "warmup_steps": 0, "decay": "constant", "evaluate_every": 4000, "patience": 30}
        options |= {"weight_decay": 0.0, "keep_best": True}
        own |= {"negatives": "bm25-negatives", "validation_run": "start-test", "validation": {"queries": 1000}}
    else:
        # STAR's scores of all that its negatives were mined from, and of the positives.
        own["teacher"] = book.add("teacher", "search", index="star-index", candidates="start-train", **of_all)
        own["negatives"] = "static-negatives"
    topics = {"name": "topic-balanced", "clusters": 2000 if paper else 20}
    batches: Tree = {"batches": topics, "batches_from": "start-index"}
    book.system("margins", "MarginMSE", **own, options=options)
    book.system("topics", "MarginMSE, topics", **own, **batches, options=options)
    book.system("tas-b", "TAS-B", **own, **batches, options={**options, "negatives_drawn": "margin_bins"})
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "tas-b", "index": "tas-b-index"}
    return book.tree()
