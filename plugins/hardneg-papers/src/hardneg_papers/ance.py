"""Recipes for ANCE (Xiong et al., ICLR 2021) and the baselines of its Table 1, on passages.

Demos train all-MiniLM-L6-v2 on docstrings, offline; the presets `paper` train RoBERTa-base on MS MARCO, on GPUs.
"""

from collections.abc import Callable
from typing import Any

from hardneg_papers.adore import adoring
from hardneg_papers.book import Book, DemoOrPaper, Tree, deep
from hardneg_papers.starts import WARM_UP, docstrings, roberta, trained

BASELINES = {"rand-neg": "Rand Neg", "nce-neg": "NCE Neg", "bm25-neg": "BM25 Neg", "bm25-rand-neg": "BM25+Rand Neg"}
WARM = {f"warm-{name}": f"BM25 → {label}" for name, label in BASELINES.items() if name != "bm25-neg"}
RANDOM: Tree = {"name": "random", "count": 200}
_MINERS: Tree = {
    "bm25-top100": {"name": "topk", "depth": 100},
    "mixed-negatives": {"name": "mixed", "depth": 100, "ratio": 1.0},
}


def setting(title: str, preset: str, start: str = "") -> Book:
    """Return a book with ANCE's evaluation: every system searches all texts and reranks BM25's top 100.

    In the preset `paper`, the table `scores` is for the queries of TREC 2019 DL, and `dev-scores` for the dev queries.
    start: the folder of a trained model to start from in that preset; if empty, RoBERTa.
    """
    rerank = {"candidates": "bm25", "row": "{name} (rerank)"}
    if preset == "demo":
        book = docstrings(title, validated=True)
        book.defaults["train"]["loss"]["name"] = "nll"
        book.add("start-rerank", "search", index="start-index", candidates="bm25")
        book.row("as shipped (rerank)", "start-rerank")
        book.searches["rerank"] = rerank
        return book
    book = trained(title, start) if start else roberta(title)
    book.top["model"] |= {"query_length": 64, "document_length": 512}
    book.top["sizes"]["queries"]["test"] = 43
    # The warm-up that the authors released; the paper leaves open how the other baselines without a warm-up were
    # trained.
    options = {**WARM_UP, "gradient_checkpointing": True}
    train = {"loss": {"name": "nll"}, "validation_run": "bm25-dev", "options": options}
    book.defaults = deep(book.defaults, {"search": {"split": "test"}, "evaluate": {"split": "test"}, "train": train})
    book.bm25(k1=0.9, b=0.4)  # Lucene's own, as the track's baseline has them
    book.add("bm25-dev", "search", index="bm25-index", split="dev", depth=1000)
    book.tables({"BM25": "bm25"}, ["BM25"], ["ndcg@10"])
    dev = {"split": "dev", "metrics": ["mrr@10", "recall@1000"]}
    book.add("dev-scores", "evaluate", runs={"BM25": "bm25-dev"}, baselines=["BM25"], **dev)
    book.searches |= {"rerank": rerank, "dev": {"split": "dev", "depth": 1000, "table": "dev-scores"}}
    return book


def ranked(title: str, preset: str, *systems: str) -> Book:
    """Return a book with the given systems on passages, in ANCE's setting; for their names, see `add_system`."""
    book = setting(title, preset)
    for system in systems:
        add_system(book, preset, system)
    return book


def add_system(book: Book, preset: str, system: str, **options: Any) -> None:
    """Add the system `ance`, or a key of `BASELINES` or `WARM`; the latter continue from BM25 Neg if it is present."""
    if system == "ance":
        add_refreshed(book, preset)
        if preset == "paper":
            # GPUs are shared 1:1, the inferencer's are those behind the trainer's.
            until = {"stop_at": 600000, "keep_every": 100000, "evaluate_every": 50000}
            options = deep({"devices": {"trainer": 1, "inferencer": 1}, "options": until}, options)
        book.system("ance", "ANCE", "train-refreshed", **options)
        book.top["outputs"] = {"model": "ance", "index": "ance-index"}
        return
    kind = system.removeprefix("warm-")
    if kind == "rand-neg":
        options["negatives"] = book.add("random-negatives", "mine", miner=RANDOM)
    elif kind == "nce-neg":
        options |= {"loss": {"name": "hardest"}, "options": {"negatives_per_query": 0}}
    else:
        mined = "bm25-top100" if kind == "bm25-neg" else "mixed-negatives"
        options["negatives"] = book.mined(mined, "bm25-index", "bm25", miner=_MINERS[mined])
    if system in WARM:
        compare(book, "BM25 Neg", "BM25")
        own = {"stop_at": 100000, "decay": "linear", "checkpoint_every": 5000} if preset == "paper" else {}
        options = deep(_goes_on(book, preset), {"options": own}, options)
        book.system(f"ance-{system}", WARM[system], **options)
    else:
        if system == "nce-neg" and preset == "paper":
            options["options"]["gradient_checkpointing"] = False
        book.system(f"ance-{system}", BASELINES[system], **options)


def _goes_on(book: Book, preset: str) -> Tree:
    """Return the model, validation and options for training after a warm-up: from BM25 Neg, or from the start model."""
    warm = "ance-bm25-neg" if "ance-bm25-neg" in book.stages else "start"
    if preset == "demo":
        return {"model": warm, "options": {}}
    rate = 5e-6 if warm == "start" else 1e-6
    # 8 queries on each of 4 GPUs, two batches a step.
    options = {"max_steps": 1000000, "accumulate": 2, "learning_rate": rate, "warmup_steps": 5000}
    return {"model": warm, "validation_run": f"{warm}-dev", "options": options}


def add_refreshed(book: Book, preset: str) -> None:
    """Add negatives for ANCE's first steps, from the warmed-up model's top 200, and set ANCE's default options."""
    own = _goes_on(book, preset)
    first = book.mined("ance-first", "ance-bm25-neg-index", miner={"name": "sampled", "depth": 200, "count": 20})
    if own["model"] == "start":
        book.change("ance-bm25-neg-train", index="start-index")
    refresh: Tree = {"policy": "synchronous", "every": 50, "depth": 200, "negatives": 20}
    if preset == "paper":
        refresh |= {"policy": "every", "every": 10000, "query_chunks": 5}  # a refresh mines a fifth of the queries
        own["options"]["checkpoint_every"] = 10000
    whole = deep(book.defaults["train"], own, {"negatives": first, "refresh": refresh})
    whole["options"].pop("decay", None)
    book.defaults["train-refreshed"] = whole
    compare(book, "BM25 Neg", "BM25")


def compare(book: Book, *baselines: str) -> None:
    """Set the baselines of the significance tests; in the preset `paper`, only for the table `dev-scores`."""
    book.change("dev-scores" if "dev-scores" in book.stages else "scores", baselines=[*baselines])


def rows_last(book: Book, *labels: str) -> None:
    """Move the rows with these labels, in this order, to the end of the tables `scores` and `dev-scores`."""
    for table in ("scores", "dev-scores"):
        runs = book.stages[table]["runs"]
        last = {label: runs[label] for label in labels if label in runs}
        book.stages[table]["runs"] = {label: run for label, run in runs.items() if label not in last} | last


def ance_bm25_passage(preset: DemoOrPaper = "demo") -> Tree:
    """BM25 and the initial model in ANCE's setting: ranking all passages, and reranking BM25's top 100.

    `hardneg recipe run ance-bm25-passage` takes two minutes. Source: Xiong et al., Approximate Nearest Neighbor
    Negative Contrastive Learning for Dense Text Retrieval, ICLR 2021, section 5 and Table 1. Expected from the paper
    preset (the paper's Table 1; not run by us): BM25 NDCG@10 .506 on the TREC 2019 DL queries; MRR@10 .240, R@1k .814
    on the dev queries. The .506 is for Lucene's default parameters, k1 .9 and b .4.
    """
    book = ranked("BM25 and the start model in ANCE's setting", preset)
    book.stages.pop("start-dev", None)
    return book.tree()


def _baseline(system: str, what: str, expected: str) -> Callable[[DemoOrPaper], Tree]:
    """Create the recipe of a row of Table 1 on passages; expected: NDCG@10, reranking, dev MRR@10, R@1k."""
    label = {**BASELINES, **WARM}[system]
    stages = ["bm25-neg", system] if system in WARM else [system]

    def recipe(preset: DemoOrPaper = "demo") -> Tree:
        return ranked(f"{label} on passages, ANCE's baseline", preset, *stages).tree()

    recipe.__doc__ = """{} of the ANCE paper: {}.

    `hardneg recipe run ance-{}-passage` takes minutes. Source: see ance-bm25-passage.
    Expected from the paper preset (Table 1; not run by us): NDCG@10 {}, reranking {}; dev MRR@10 {}, R@1k {}.
    """.format(label, what, system, *expected.split())
    return recipe


ance_rand_neg_passage = _baseline("rand-neg", "one random passage for each query", ".552 .605 .261 .949")
ance_nce_neg_passage = _baseline("nce-neg", "the hardest passage of the batch for each query", ".539 .602 .256 .943")
ance_bm25_neg_passage = _baseline(
    "bm25-neg", "one of BM25's top 100 for each query; also ANCE's warm-up", ".591 .664 .299 .928"
)
ance_bm25_rand_neg_passage = _baseline(
    "bm25-rand-neg", "one of BM25's top 100 or, as often, a random passage", ".600 .653 .311 .952"
)
ance_warm_rand_neg_passage = _baseline("warm-rand-neg", "random passages after a warm-up", ".576 .609 .280 .948")
ance_warm_nce_neg_passage = _baseline("warm-nce-neg", "the hardest of the batch after a warm-up", ".571 .608 .279 .942")
ance_warm_bm25_rand_neg_passage = _baseline("warm-bm25-rand-neg", "both kinds after a warm-up", ".591 .648 .306 .939")


def ance_table1(preset: DemoOrPaper = "demo") -> Tree:
    """The dense rows of Table 1 of the ANCE paper on passages: ANCE and seven baselines, in retrieval and reranking.

      hardneg recipe run ance-table1 --set dataset=beir:path/to/folder          an hour on two cores

    Source: Xiong et al., ICLR 2021, section 5 and Table 1. Expected from the paper preset, NDCG@10 on the TREC 2019 DL
    queries, in retrieval / reranking BM25's top 100 (not run by us): Rand Neg .552 / .605, NCE Neg .539 / .602, BM25
    Neg .591 / .664, BM25+Rand Neg .600 / .653; after a warm-up on BM25's negatives Rand Neg .576 / .609, NCE Neg .571 /
    .608, BM25+Rand Neg .591 / .648; ANCE .648 / .677. Signs mark rows that are significantly better in retrieval than
    BM25 (*), than every baseline without a warm-up (†), and than every baseline with one (‡).
    """
    book = ranked("ANCE, Table 1 on passages", preset, *BASELINES, *WARM, "ance")
    marks = {"*": ["BM25"], "†": [*BASELINES.values()], "‡": [*WARM.values()]}
    book.change("scores", baselines=["BM25 Neg"], marks=marks)
    compare(book, "BM25 Neg")
    return book.tree()


def ance_rates_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE at several learning rates, negative depths and refresh intervals; the paper preset has the paper's.

    `hardneg recipe run ance-rates-passage` takes an hour. Source: Xiong et al., ICLR 2021, section A.4 and Table 7;
    first version, Table 5. Expected from the paper preset, MRR@10 on the dev queries in the order of the paper's rows
    (not run by us): .33, .31, .29, .303, .302. A failed setting often diverges early; the report shows the losses.
    """
    book = ranked("ANCE's rates, depths and refreshes on passages", preset, "bm25-neg", "ance")
    paper: Tree = {
        "1e-6, top 500, every 10k": (1e-6, 500, 10000),
        "2e-6, top 200, every 10k": (2e-6, 200, 10000),
        "2e-7, top 500, every 20k": (2e-7, 500, 20000),
        "2e-7, top 1000, every 20k": (2e-7, 1000, 20000),
    }
    add_rates(book, preset, paper)
    if preset == "paper":
        book.change("report", evaluation="dev-scores")
    return book.tree()


def add_rates(book: Book, preset: str, paper: Tree) -> None:
    """Add ANCE in four settings. paper: (learning rate, negative depth, refresh interval) by label in that preset."""
    demo: Tree = {
        "base, top 50, every 50": (5e-5, 50, 50),
        "base, top 200, every 25": (5e-5, 200, 25),
        "twice, top 200, every 50": (1e-4, 200, 50),
        "a fifth, top 200, every 100": (1e-5, 200, 100),
    }
    own: Tree = {"options": {}}
    if preset == "paper":
        own = {"devices": {"trainer": 1, "inferencer": 1}, "options": {"stop_at": 600000, "evaluate_every": 50000}}
    del book.searches["rerank"]
    for name, (label, (rate, depth, every)) in zip("abcd", (paper if preset == "paper" else demo).items(), strict=True):
        whole = deep(own, {"refresh": {"every": every, "depth": depth}, "options": {"learning_rate": rate}})
        book.system(f"ance-{name}", label, "train-refreshed", **whole)
    compare(book, "ANCE")
    book.top["outputs"] = {"model": "ance-d", "index": "ance-d-index"}


def ance_splade(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE for learned sparse retrieval: SPLADE on negatives from its own top 200, re-mined during training.

    `hardneg recipe run ance-splade` takes half an hour on two cores; `--preset paper` uses DistilBERT. It needs `pip
    install ./plugins/hardneg-sparse`. all-MiniLM-L6-v2 has no masked-language-model head, so a new one is built from
    its embeddings. The row "as shipped" is this model before any training. Source: Xiong et al., ANCE, ICLR 2021,
    sections 4 and 5, for the negatives; Formal et al., SPLADE v2, arXiv 2109.10086, section 4, for the model. Expected
    from the paper preset: no paper reports the combination.
    """
    flops: Tree = {"name": "flops", "query_weight": 0.001, "document_weight": 0.001}
    own: Tree = {}
    book = setting("ANCE for SPLADE", preset)
    if preset == "paper":
        # DistilBERT has the head that it was pretrained with.
        del book.top["model"]["projection"]
        texts = {"query_length": 256, "document_length": 256}
        name = "distilbert/distilbert-base-uncased"
        book.top["model"] |= {"name": name, "pooling": "own", "layer_norm": False, **texts}
        flops |= {"query_weight": 0.0003, "document_weight": 0.0001}
        whole = {"optimizer": "adamw", "learning_rate": 2e-5, "weight_decay": 0.01, "warmup_steps": 6000}
        book.defaults = deep(book.defaults, {"train": {"options": whole}})
        own = {"options": {"learning_rate": 2e-5}}
    book.top["model"]["encoder"] = "sparse"
    book.defaults = deep(book.defaults, {"train": {"loss": {"temperature": 1.0}, "regularizer": flops}})
    add_system(book, preset, "bm25-neg")
    # The weights of the regularizer are whole from the start: the warm-up has raised them.
    add_system(book, preset, "ance", regularizer={"schedule": "constant"}, **own)
    # For Pyserini's LuceneImpactSearcher.
    book.add("ance-impact", "index", backend="impact", vectors="ance-index")
    book.top["outputs"] = {"model": "ance", "index": "ance-impact"}
    return book.tree()


def adore_ance_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on ANCE: the query encoder is trained on what it retrieves at each step; compared with ANCE and RankNet.

    `hardneg recipe run adore-ance-passage` takes half an hour. Source: Zhan et al., SIGIR 2021, Tables 1, 2 and 4,
    Figure 5: the rows of ANCE, which other recipes omit because ANCE reads queries of 64 and passages of 512 tokens.
    Expected from the paper preset (the paper's Table 2; not run by us): MRR@10 and R@100 on the dev queries ANCE .338
    and .862, ADORE+ANCE .341 and .866; NDCG@10 on the TREC 2019 DL queries .654 and .675. Table 4: ANCE takes 645 hours
    on 4 GPUs, ADORE 4.
    """
    book = ranked("ADORE on ANCE, passages", preset, "bm25-neg", "ance")
    add_adore(book, preset)
    add_adore(book, preset, "RankNet", {"name": "ranknet"}, report=False)
    if preset == "paper":
        book.change("dev-scores", metrics=["mrr@10", "recall@100", "recall@1000"])
    add_behind(book, preset)
    return book.tree()


def add_adore(book: Book, preset: str, label: str = "ADORE", loss: Tree | None = None, report: bool = True) -> None:
    """Add a query encoder trained by ADORE, or with another loss, from ANCE's model on its index."""
    own = {"model": "ance", "index": "ance-index", **adoring("ance", preset == "paper", loss)}
    if preset == "paper":
        own["validation_run"] = "ance-dev"
    name = book.system(f"{label.lower()}-ance", f"{label}+ANCE", "train-queries", report=report, **own)
    book.top["outputs"] = {"model": name, "index": "ance-index"}
    compare(book, "ANCE")


def add_behind(book: Book, preset: str) -> None:
    """Add analyses of pairwise errors and training costs for ADORE on ANCE."""
    warm = [] if book.stages["ance"]["model"] == "start" else ["ance-bm25-neg-train"]
    start = "ance-bm25-neg-index" if warm else "start-index"
    analysis = {
        "errors": {
            "indexes": {"BM25 Neg": start, "ANCE": "ance-index", "ADORE+ANCE": "ance-index"},
            "models": {"ADORE+ANCE": "adore-ance"},
        },
        "costs": {"methods": {"ANCE": [*warm, "ance-first", "ance"], "ADORE": "adore-ance"}},
    }
    book.add("behind", "analyze", analysis=analysis, **({"split": "dev"} if preset == "paper" else {}))
    book.change("report", analyses={"Behind the metrics": "behind"})
    if preset == "paper":
        # The STAR and ADORE paper's threshold on TREC's queries; .01 is that of the dev queries.
        book.change("scores", metrics=["ndcg@10", "recall@100"], significance_level=0.05)
