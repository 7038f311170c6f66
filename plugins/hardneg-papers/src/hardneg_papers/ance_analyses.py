"""Recipes for the analyses in the figures and appendices of the ANCE paper (ICLR 2021 and its first version)."""

from hardneg_papers.ance import RANDOM, add_refreshed, ranked, rows_last
from hardneg_papers.book import Book, DemoOrPaper, Tree, deep


def ance_analyses(preset: DemoOrPaper = "demo") -> Tree:
    """Analyses of ANCE: loss and gradients, scores by rank, overlaps, refreshes, unjudged documents, wins, times.

      hardneg recipe run ance-analyses --set dataset=beir:path/to/folder        an hour on two cores

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval, ICLR
    2021, Figures 3, 4 and 5, Tables 3, 6, 8 and 9. Expected (the paper's figures on MS MARCO, not run by us): gradients
    are near zero for random and in-batch negatives, and larger by orders of magnitude for ANCE's. The model retrieves
    15% of BM25's negatives in testing, but 63% of ANCE's at the beginning and 100% at the end. The overlap with BM25 is
    at most 25%. The dev metric fluctuates if refreshes are rare or the learning rate is high. In the demo, only
    positives are judged, so the share of unjudged documents says little. Figure 5 (loss and dev metric by step) is in
    the report's training curves; the paper preset measures the metric in a pool of BM25 Neg's top 50.
    """
    book = ranked("What lies behind ANCE", preset, "bm25-neg", "warm-rand-neg", "warm-nce-neg", "ance")
    paper = preset == "paper"
    refreshes = _add_variants(book, paper)
    # Figure 3: the lists that each training draws its negatives from, and what its model finds for the same queries. Of
    # ANCE that is the first 100 of what the first refresh found, as many as are looked at in testing. What it trains
    # on, `ance-first`, is 20 drawn of the first 200: were the model to stay as it is, half of those would be met, and
    # all of the first 100, as the paper has it.
    for name in ("ance-warm-rand-neg", "ance"):
        book.add(f"{name}-train", "search", index=f"{name}-index", split="train", depth=110)
    book.add("ance-first-top", "mine", runs={"dense": "ance-bm25-neg-train"}, miner={"name": "topk", "depth": 100})
    trainings = {"BM25 → Rand Neg": "ance-warm-rand-neg", "BM25 → NCE Neg": "ance-warm-nce-neg", "ANCE": "ance"}
    tests = {label: f"{name}-test" for label, name in {"BM25 Neg": "ance-bm25-neg", **trainings}.items()}
    runs = {"BM25": "bm25", **tests}
    drawn = {"BM25 Neg": "bm25-top100", "BM25 → Rand Neg": "random-negatives", "ANCE, first refresh": "ance-first-top"}
    found = ("ance-bm25-neg-train", "ance-warm-rand-neg-train", "ance-train")
    met = dict(zip(drawn, found, strict=True))
    operations = {"BM25 index": "bm25-index", "BM25 search": "bm25", "encoding": "ance-index"}
    operations |= {"dense search": "ance-test", "ANCE training": "ance"}
    analysis = {
        "gradients": {"trainings": trainings},
        "refreshes": {"trainings": refreshes},
        "operations": {"stages": operations},
        "scores": {"single": 10, "runs": runs},
        "overlap": {"negatives": drawn, "met": met},
        "unjudged": {"runs": runs, "against": "BM25"},
        "query-wins": {"run": "ance-test", "against": "bm25"},
    }
    book.add("behind", "analyze", analysis=analysis)
    book.change("report", analyses={"Behind ANCE": "behind"})
    return book.tree()


def _add_variants(book: Book, paper: bool) -> Tree:
    """Add the training runs of Figure 5, with other refresh intervals or learning rates; return the stages by label."""
    demo = {"every 100 steps": (100, 5e-5, 0), "every 25": (25, 5e-5, 0), "five times the rate": (25, 2.5e-4, 0)}
    authors = {"every 20000 steps": (20000, 1e-6, 1), "every 5000": (5000, 1e-6, 2)}
    authors["every 10000, five times the rate"] = (10000, 5e-6, 1)
    stages = ("ance-seldom", "ance-often", "ance-fast")
    variants = authors if paper else demo
    for stage, (every, rate, inferencers) in zip(stages, variants.values(), strict=True):
        options = {"learning_rate": rate, "evaluate_every": 10000 if paper else 20}
        own: Tree = {"devices": {"trainer": 1, "inferencer": inferencers}} if paper else {}
        options |= {"stop_at": 300000} if paper else {}
        book.add(stage, "train-refreshed", refresh={"every": every}, options=options, **own)
    return dict(zip(variants, stages, strict=True))


def ance_coverage(preset: DemoOrPaper = "demo") -> Tree:
    """How far TREC 2019 DL's judgements cover each ranking: recall@1000, unjudged documents, overlap with BM25.

    `hardneg recipe run ance-coverage` takes half an hour. Source: Xiong et al., ICLR 2021, section A.2 and Table 6;
    first version, Table 4. For documents, see ance-document, ance-maxp-document and ance-baselines-document. Expected
    from the paper preset (not run by us), as R@1K (grade 1 or higher), unjudged in the top 10, overlap with BM25: BM25
    .685, 5.9%, 100%; BM25 Neg .569, 25.8%, 11.9%; BM25+Rand Neg .662, 20.2%, 16.4%; ANCE .661, 14.8%, 17.4%.
    """
    book = ranked("What TREC 2019 DL's judgements cover", preset, "bm25-rand-neg", "bm25-neg", "ance")
    labels = {"BM25 Neg": "ance-bm25-neg", "BM25+Rand Neg": "ance-bm25-rand-neg", "ANCE": "ance"}
    bm25 = "bm25"
    if preset == "paper":
        # `bm25` keeps its first 100, which others rerank.
        bm25 = book.add("bm25-deep", "search", index="bm25-index", depth=1000)
        for name in labels.values():
            book.change(f"{name}-test", depth=1000)
        rows_last(book, "BM25+Rand Neg", "BM25 Neg", "ANCE")
    runs = {"BM25": bm25, **{label: f"{name}-test" for label, name in labels.items()}}
    metrics = ["recall@1000" if preset == "paper" else "recall@100"]
    unjudged = {"runs": runs, "against": "BM25", "metrics": metrics}
    book.add("coverage", "analyze", analysis={"unjudged": unjudged})
    book.change("report", analyses={"Coverage": "coverage"})
    return book.tree()


def ance_overlap(preset: DemoOrPaper = "demo") -> Tree:
    """The share of training negatives that the model itself retrieves, for BM25's, random and ANCE's negatives.

    `hardneg recipe run ance-overlap` takes an hour on two cores. Source: Xiong et al., first version of ANCE, section
    5.3 and Figure 3, which also uses dev queries. Expected: the model retrieves at most 20% of BM25's negatives and
    almost no random ones; the share of ANCE's rises towards 100% (docs/results/more-recipes.md). For each step, a model
    is trained from scratch up to that step; its last weights are used, even if earlier ones were better. ANCE's
    negatives are top documents of the model at a refresh, and are used from the next step on.
    """
    book = ranked("Overlap of training and testing negatives", preset, "bm25-neg")
    add_refreshed(book, preset)
    paper = preset == "paper"
    every = 10000 if paper else 25
    book.add("random-negatives", "mine", miner=RANDOM)
    refresh: Tree = {"every": every, **({"policy": "synchronous", "query_chunks": 1} if paper else {})}
    trainings: Tree = {
        "BM25 Neg": ("train", {"negatives": "bm25-top100"}),
        "Rand Neg": ("train", {"negatives": "random-negatives"}),
        "ANCE": ("train-refreshed", {"refresh": refresh}),
    }
    # What each would train on, of the dev queries.
    if not paper:
        book.add("bm25-dev", "search", index="bm25-index", split="dev", depth=110)
    _add_top(book, "bm25-dev-negatives", bm25="bm25-dev")
    book.add("random-dev-negatives", "mine", split="dev", miner={"name": "random", "count": 100})
    book.add("ance-start-top", "search", index="ance-bm25-neg-index", split="dev", depth=110)
    _add_top(book, "ance-start-negatives", dense="ance-start-top")
    start = {"BM25 Neg": "bm25-dev", "Rand Neg": "random-dev", "ANCE": "ance-start"}
    negatives: Tree = {label: {"0": f"{name}-negatives"} for label, name in start.items()}
    met: Tree = {"BM25 Neg": {}, "Rand Neg": {}, "ANCE": {"0": "ance-start-top"}}
    for step, name in enumerate(("early", "middle", "late", "end"), 1):
        at = step * every
        for label, (verb, own) in trainings.items():
            stage = f"{label.lower().replace(' ', '-')}-{name}"
            book.add(stage, verb, options={"stop_at": at, "keep_best": False}, **own)
            book.add(f"{stage}-index", "encode", model=stage)
            met[label][str(at)] = book.add(f"{stage}-top", "search", index=f"{stage}-index", split="dev", depth=110)
        negatives["ANCE"][str(at + 1)] = _add_top(book, f"ance-{name}-negatives", dense=f"ance-{name}-top")
    analysis: Tree = {"overlap-curve": {"negatives": negatives, "met": met}}
    if not paper:
        # The start model can rank before it is trained.
        book.add("start-top", "search", index="start-index", split="dev", depth=110)
        start_top = {"0": "start-top"}
        analysis = deep({"overlap-curve": {"met": {"BM25 Neg": start_top, "Rand Neg": start_top}}}, analysis)
    book.add("overlap", "analyze", split="dev", analysis=analysis)
    book.change("report", analyses={"Through training": "overlap"})
    book.top["outputs"] = {"model": "ance-end", "index": "ance-end-index"}
    return book.tree()


def _add_top(book: Book, name: str, **run: str) -> str:
    """Mine the top 100 of a run for the dev queries; return the name of the negatives."""
    return book.add(name, "mine", split="dev", runs=run, miner={"name": "topk", "depth": 100})


def ance_projections(preset: DemoOrPaper = "demo") -> Tree:
    """Projections of queries with relevant passages and each kind of negative, and of queries that ANCE wins and loses.

    `hardneg recipe run ance-projections` takes twenty minutes and needs `pip install "hardneg[analysis]"`.
    Source: Xiong et al., ICLR 2021, Figures 1, 6 and 7; first version, Figures 1, 5 and 6. Expected (not run by us):
    BM25's and random negatives are far from the negatives of dense retrieval. For won queries, relevant passages and
    negatives form separate groups; for lost queries, they mix.
    """
    book = ranked("ANCE's representations", preset, "bm25-neg", "ance")
    book.add("random-negatives", "mine", miner=RANDOM)
    book.add("ance-train", "search", index="ance-index", split="train", depth=110)
    book.add("ance-top", "mine", runs={"dense": "ance-train"}, miner={"name": "topk", "depth": 100})
    indexes = {"ANCE": "ance-index"}
    # One training query; choose another by `analysis.projection.query`.
    mined = {"BM25 Neg": "bm25-top100", "Rand Neg": "random-negatives", "DR Neg": "ance-top"}
    projection = {"indexes": indexes, "mined": mined, "negatives": 50}
    book.add("kinds", "analyze", split="train", analysis={"projection": projection})
    runs = {"ANCE": "ance-test", "BM25": "bm25"}
    projection = {"indexes": indexes, "runs": runs, "wins": 3, "negatives": 30}
    book.add("cases", "analyze", analysis={"projection": projection})
    book.change("report", analyses={"Kinds of negatives": "kinds", "Won and lost": "cases"})
    return book.tree()


def ance_times(preset: DemoOrPaper = "demo") -> Tree:
    """Query latency of ANCE, one query at a time and in batches, and of BM25 with a cross-encoder over its top 100.

    `hardneg recipe run ance-times` takes half an hour. Source: Xiong et al., ICLR 2021, Table 5; first version, Table
    3. Expected for document ranking on the paper's hardware (not run by us): BM25 37 ms, BERT 1.15 s; ANCE 2.6 ms to
    encode a query and 9 ms to search; 4.5 ms to encode a document; per training step, 72 ms for negatives and 19 ms for
    the rest. The cross-encoder is trained for only a few steps, because only its speed matters here.
    """
    book = ranked("What a query waits for", preset, "bm25-neg", "ance")
    options: Tree = {"batch_size": 8, "negatives_per_query": 1, "max_steps": 20, "learning_rate": 1e-4}
    reranker = {"name": "cross-encoder", "source": "packaged:all-MiniLM-L6-v2", "length": 160}
    judged: Tree = {}
    if preset == "paper":
        reranker |= {"source": "google-bert/bert-base-uncased", "length": 512}
        options |= {"max_steps": 100, "learning_rate": 1e-5, "evaluate_every": 100, "keep_best": False}
        judged = {"validation_run": "ance-bm25-neg-dev", "validation": {"depth": 50, "queries": 100}}
    own = {"reranker": reranker, "negatives": "bm25-top100", "options": options, **judged}
    book.add("cross-encoder", "train-reranker", **own)
    book.add("bm25-reranked", "rerank", reranker="cross-encoder", run="bm25", depth=100)
    stages = {"BM25 index": "bm25-index", "BM25": "bm25", "reranking": "bm25-reranked"}
    stages |= {"encoding": "ance-index", "ANCE": "ance-test", "ANCE training": "ance"}
    dense = ["ANCE: encode queries", "ANCE: search"]
    totals = {"BM25 and reranking": ["BM25", "reranking"], "dense retrieval": dense}
    operations = {"stages": stages, "totals": totals}
    latency = {"indexes": {"ANCE": "ance-index"}}
    book.add("times", "analyze", analysis={"operations": operations, "latency": latency})
    book.change("report", analyses={"Times": "times"})
    return book.tree()
